#include "kernels/cuda/runtime/scratch.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/refusals.h"
#include "platform/environment.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace booster::kernels::cuda {
namespace {

constexpr size_t alignment = 256;
constexpr size_t smallest_chunk = size_t{1} << 20;

size_t rounded(size_t bytes) {
  return bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
}

// Fills memory, for tests, so that unwritten memory reads as nan.
void poison(void* data, size_t bytes) {
  static const bool wanted = environment::is_set("BOOSTER_CUDA_POISON");
  if (wanted) CUDA_CALL(cudaMemsetAsync(data, 0xFF, bytes, current_stream()));
}

// Returns the graph's stack if the thread records a graph, else the thread's own.
ScratchStack& stack() {
  if (Graph* graph = graph_in_progress()) return scratch_of(*graph);
  thread_local std::map<int, ScratchStack> stacks;
  return stacks.try_emplace(current_device(), current_device()).first->second;
}

}  // namespace

ScratchStack::~ScratchStack() {
  use_ = Use::at_once;
  drop_chunks();
  for (char* data : kept_) free(device_, data);
}

void* ScratchStack::take(size_t bytes) {
  if (chunks_.empty() || chunks_.back().used + bytes > chunks_.back().bytes) add_chunk(bytes);
  Chunk& chunk = chunks_.back();
  void* data = chunk.data + chunk.used;
  chunk.used += bytes;
  return data;
}

void ScratchStack::give(size_t bytes) {
  size_t last = chunks_.size() - 1;
  while (chunks_[last].used == 0) --last;
  chunks_[last].used -= bytes;
  if (chunks_.size() > 1 && chunks_.front().used == 0 && last == 0) drop_chunks();
}

void ScratchStack::add_chunk(size_t bytes) {
  const size_t least = std::max(bytes, smallest_chunk);
  size_t size = chunks_.empty() ? std::max(least, dropped_bytes_) : least;
  void* data = allocate_or_release(device_, size);
  if (!data && size > least) data = allocate_or_release(device_, size = least);
  if (!data) fail_without_memory(device_, size);
  chunks_.push_back({static_cast<char*>(data), size, 0});
}

// Frees the chunks; the runtime waits until no queued work uses them.
void ScratchStack::drop_chunks() {
  dropped_bytes_ = 0;
  for (const Chunk& chunk : chunks_) {
    dropped_bytes_ += chunk.bytes;
    if (use_ == Use::recorded) kept_.push_back(chunk.data);
    else free(device_, chunk.data);
  }
  chunks_.clear();
}

void* take_scratch(size_t bytes) {
  void* data = stack().take(rounded(bytes));
  poison(data, rounded(bytes));
  return data;
}
void give_scratch(size_t bytes) { stack().give(rounded(bytes)); }

}  // namespace booster::kernels::cuda
