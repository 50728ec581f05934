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

thread_local Scratch entry_buffer, key_buffer;

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

// Sets keys[i] = key of element first + i. Key is as wide as a dtype's keys.
template <class Key>
void load_keys(Key* keys, const View& x, int64_t first, int64_t n, bool descending) {
  const auto* run = x.as<const char>() + first * size_of(x.dtype);
  const auto load_as = [&](auto* type, auto&& key_of) {
    const auto* from = reinterpret_cast<decltype(type)>(run);
    for (int64_t i = 0; i < n; ++i) {
      const auto key = Key(key_of(from[i]));
      keys[i] = descending ? Key(~key) : key;
    }
  };
  if (x.dtype == DType::f32)
    return load_as(static_cast<const float*>(nullptr), [](float v) { return sort_key(v); });
  if (x.dtype == DType::i64)
    return load_as(static_cast<const int64_t*>(nullptr), [](int64_t v) { return sort_key(v); });
  if (x.dtype == DType::bf16)
    return load_as(static_cast<const bf16*>(nullptr), [](bf16 v) { return sort_key(to_float(v)); });
  for (int64_t i = 0; i < n; ++i) keys[i] = Key(sort_key_of(run, x.dtype, i, descending));
}

// Puts the first `wanted` of n keys, sorted, at the beginning of `best`. Skips blocks of keys that
// are all too large.
template <class Key>
void select_first(Entry* best, int64_t wanted, int64_t n, const Key* keys) {
  const auto take = [=](int64_t i, int64_t at) {
    const Key key = keys[i];
    for (; at > 0 && best[at - 1].key > key; --at) best[at] = best[at - 1];
    best[at] = {key, i};
  };
  constexpr int64_t block = 32;
  int64_t i = 0;
  for (; i < wanted; ++i) take(i, i);
  while (i < n) {
    const Key limit = Key(best[wanted - 1].key);
    const int64_t end = i + block < n ? i + block : n;
    Key found = 0;
    for (int64_t j = i; j < end; ++j) found |= Key(keys[j] < limit);
    for (; found && i < end; ++i)
      if (keys[i] < best[wanted - 1].key) take(i, wanted - 1);
    i = end;
  }
}

// Above this a full sort is faster if most elements enter the list.
constexpr int64_t most_selected = 128;

template <class Key>
void sort_rows_by(const View& index, const View& x, bool descending) {
  const int64_t n = x.columns(), wanted = index.columns();
  if (wanted == 0) return;
  for_each_range(x.rows(), grain_for(16 * n), [=](int64_t begin, int64_t end) {
    Entry* entries = entry_buffer.get<Entry>(2 * n);
    Key* keys = key_buffer.get<Key>(n);
    for (int64_t row = begin; row < end; ++row) {
      load_keys(keys, x, row * n, n, descending);
      const Entry* in_order = entries;
      if (wanted < n && wanted <= most_selected) {
        select_first(entries, wanted, n, keys);
      } else {
        for (int64_t i = 0; i < n; ++i) entries[i] = {keys[i], i};
        in_order = sorted(entries, entries + n, n);
      }
      int64_t* to = index.as<int64_t>() + row * wanted;
      for (int64_t i = 0; i < wanted; ++i) to[i] = in_order[i].position;
    }
  });
}

}  // namespace

void sort_rows(View index, View x, bool descending) {
  if (key_bits(x.dtype) == 64) return sort_rows_by<uint64_t>(index, x, descending);
  sort_rows_by<uint32_t>(index, x, descending);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
