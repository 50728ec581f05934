#include "core/tensor/memory/memory_report.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/cpu/library.h"
#include "kernels/device/memory.h"

#include <fmt/core.h>

#include <algorithm>

namespace booster {
namespace {

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string label_of(MemoryTag tag) {
  const std::string name = name_of(tag);
  return tag > MemoryTag::activations ? "activations of " + name : name;
}

std::vector<MemoryUse> use_of(const TaggedBytes& by_tag) {
  std::vector<MemoryUse> uses;
  for (int i = 0; i < memory_tags; ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    const int64_t scratch = tag == MemoryTag::workspace ? kernels::cpu::scratch_bytes() : 0;
    const auto [live, peak] = by_tag[i];
    if (peak + scratch > 0) uses.push_back({label_of(tag), live + scratch, peak + scratch});
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  return uses;
}

std::string table_of(const AllocatorStats& stats, const TaggedBytes& by_tag) {
  std::string text = fmt::format("{:<34} {:>10} {:>10}\n", "memory, MiB", "live", "peak");
  const auto row = [&](const std::string& name, int64_t live, int64_t peak) {
    text += fmt::format("{:<34} {:>10.1f} {:>10.1f}\n", name, mebibytes(live), mebibytes(peak));
  };
  for (const auto& use : use_of(by_tag)) row("  " + use.tag, use.live_bytes, use.peak_bytes);
  row("all tensors at once", stats.live_bytes, stats.peak_bytes);
  text += fmt::format("{:<34} {:>10.1f}\n", "kept for later",
                      mebibytes(stats.reserved_bytes - stats.live_bytes));
  return text;
}

// A change, and the estimated share of some tags' bytes that it saves.
struct Advice {
  double share;
  std::vector<MemoryTag> tags;  // `activations` stands for the tags of all modules
  const char* text;
};

const std::vector<Advice>& all_advice() {
  using enum MemoryTag;
  static const std::vector<Advice> advice = {
      {0.5,
       {activations, workspace, data},
       "a smaller batch: halve data.batch_size and double train.accumulate; the result is the "
       "same"},
      {0.45,
       {activations, workspace},
       "16-bit precision: booster.mixed_precision bf16 keeps most activations in half the bytes"},
      {0.4,
       {activations},
       "checkpoint() around blocks: recomputes activations instead of keeping them"},
      {0.9,
       {optimizer_state},
       "an optimizer with less state: sgd keeps none, momentum 4 bytes per parameter, adamw 8"},
      {0.5, {parameters, gradients, masters, copies, optimizer_state}, "a smaller model"},
      {0.5, {data}, "fewer prefetched batches: data.prefetch 1"},
  };
  return advice;
}

double saving(const Advice& advice, const TaggedBytes& by_tag) {
  double bytes = 0;
  for (int i = 0; i < memory_tags; ++i) {
    const auto tag = std::min(static_cast<MemoryTag>(i), MemoryTag::activations);
    if (std::count(advice.tags.begin(), advice.tags.end(), tag) > 0)
      bytes += static_cast<double>(by_tag[i].live);
  }
  return advice.share * bytes;
}

}  // namespace

std::vector<MemoryUse> memory_use() { return use_of(tagged_bytes()); }
std::string memory_report() { return table_of(allocator_stats(), tagged_bytes()); }

std::string out_of_memory_report(const AllocatorStats& stats, const TaggedBytes& by_tag) {
  std::vector<Advice> advice = all_advice();
  std::stable_sort(advice.begin(), advice.end(), [&](const Advice& a, const Advice& b) {
    return saving(a, by_tag) > saving(b, by_tag);
  });
  std::string text = table_of(stats, by_tag) + "most effective changes:";
  for (int i = 0; i < 3; ++i) text += fmt::format("\n  {}. {}", i + 1, advice[i].text);
  return text;
}

int cuda_device_count() { return kernels::cuda_device_count(); }

}  // namespace booster
