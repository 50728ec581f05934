// Sorts each row by its keys, with a merge sort. For only the first few it keeps a list of the best
// so far. Both are stable.
#include "kernels/index/sort_key.h"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Entry {
  uint64_t key;
  int64_t position;
};

thread_local Scratch entry_buffer;

// Merges the sorted entries from[begin, middle) and from[middle, end) to to[begin, end).
void merge(Entry* to, const Entry* from, int64_t begin, int64_t middle, int64_t end) {
  int64_t left = begin, right = middle;
  for (int64_t i = begin; i < end; ++i) {
    const bool from_left = left < middle && (right == end || from[left].key <= from[right].key);
    to[i] = from_left ? from[left++] : from[right++];
  }
}

// Sorts by insertion, the fastest for runs of a few entries.
void sort_run(Entry* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Entry entry = entries[i];
    int64_t at = i;
    for (; at > 0 && entries[at - 1].key > entry.key; --at) entries[at] = entries[at - 1];
    entries[at] = entry;
  }
}

// Sorts n entries with space for as many; returns the place of the result.
const Entry* sorted(Entry* entries, Entry* room, int64_t n) {
  constexpr int64_t run = 16;
  const auto end_of = [n](int64_t at) { return at < n ? at : n; };
  for (int64_t at = 0; at < n; at += run) sort_run(entries + at, end_of(at + run) - at);
  for (int64_t width = run; width < n; width *= 2) {
    for (int64_t at = 0; at < n; at += 2 * width)
      merge(room, entries, at, end_of(at + width), end_of(at + 2 * width));
    Entry* merged = room;
    room = entries;
    entries = merged;
  }
  return entries;
}

// Puts the first `wanted` of n entries, sorted, at the beginning of `best`.
template <class EntryAt>
void select_first(Entry* best, int64_t wanted, int64_t n, EntryAt&& entry_at) {
  for (int64_t i = 0; i < n; ++i) {
    const Entry entry = entry_at(i);
    if (i >= wanted && entry.key >= best[wanted - 1].key) continue;
    int64_t at = i < wanted ? i : wanted - 1;
    for (; at > 0 && best[at - 1].key > entry.key; --at) best[at] = best[at - 1];
    best[at] = entry;
  }
}

// Above this a full sort is faster if most elements enter the list.
constexpr int64_t most_selected = 128;

}  // namespace

void sort_rows(View index, View x, bool descending) {
  const int64_t n = x.columns(), wanted = index.columns();
  if (wanted == 0) return;
  for_each_range(x.rows(), grain_for(16 * n), [=](int64_t begin, int64_t end) {
    Entry* entries = entry_buffer.get<Entry>(2 * n);
    for (int64_t row = begin; row < end; ++row) {
      const auto entry_at = [=](int64_t i) -> Entry {
        return {sort_key_of(x.data, x.dtype, row * n + i, descending), i};
      };
      const Entry* in_order = entries;
      if (wanted < n && wanted <= most_selected) {
        select_first(entries, wanted, n, entry_at);
      } else {
        for (int64_t i = 0; i < n; ++i) entries[i] = entry_at(i);
        in_order = sorted(entries, entries + n, n);
      }
      int64_t* to = index.as<int64_t>() + row * wanted;
      for (int64_t i = 0; i < wanted; ++i) to[i] = in_order[i].position;
    }
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
