// Where the memory of take_scratch comes from.
#pragma once

#include <cstddef>
#include <vector>

namespace booster::kernels::cuda {

// Memory of one device: a stack in chunks. While it is in use it grows by another chunk; when it is
// empty again and there are several, one of their size takes their place at the next call. Giving
// back never fails, so that it may stand in destructors.
class ScratchStack {
 public:
  // What is recorded uses the memory at every replay: no chunk goes before the stack does.
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
  size_t dropped_bytes_ = 0;  // what the stack needed when it was last in several chunks
  std::vector<Chunk> chunks_;
  std::vector<char*> kept_;  // of chunks that were dropped, if they are recorded
};

}  // namespace booster::kernels::cuda
