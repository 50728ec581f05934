// The memory that take_scratch returns.
#pragma once

#include <cstddef>
#include <vector>

namespace booster::kernels::cuda {

// Memory of one device: a stack in chunks. While in use it grows by further chunks. Once it is
// empty with several chunks, the next call replaces them by one of their total size. Returning
// memory never fails, so destructors may do it.
class ScratchStack {
 public:
  // A recording uses the memory at every replay: no chunk is freed before the stack.
  enum class Use { at_once, recorded };

  explicit ScratchStack(int device, Use use = Use::at_once) : device_(device), use_(use) {}
  ~ScratchStack();
  ScratchStack(const ScratchStack&) = delete;

  void* take(size_t bytes);
  void give(size_t bytes);

 private:
  struct Chunk {
    char* data;
    size_t bytes, used;
  };

  void add_chunk(size_t bytes);
  void drop_chunks();

  int device_;
  Use use_;
  size_t dropped_bytes_ = 0;  // the stack's need when it last had several chunks
  std::vector<Chunk> chunks_;
  std::vector<char*> kept_;  // dropped chunks, if they are recorded
};

}  // namespace booster::kernels::cuda
