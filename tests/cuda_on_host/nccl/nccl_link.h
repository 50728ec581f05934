// Byte exchange between the processes of one communicator of the emulated NCCL: a ring buffer in
// shared memory for each ordered pair of ranks. The memory's file is named after the communicator's
// id.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace cuda_on_host {

class NcclLink {
 public:
  using Gpu = std::array<char, 16>;

  NcclLink(const std::string& name, int rank, int size, const Gpu& gpu);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;

  // Marks this rank as joined; returns whether all have joined; returns whether two have the same
  // GPU.
  void join();
  bool is_complete();
  bool has_one_gpu_twice() const;
  // Transfers as many bytes as there is room for, or as are available.
  size_t write(int to, const char* data, size_t bytes);
  size_t read(int from, char* data, size_t bytes);
  // Marks this rank as finished; returns whether all have finished.
  void leave();
  bool is_left_by_all() const;

 private:
  struct Seat;
  struct Ring;
  Seat& seat(int rank) const;
  Ring& ring(int from, int to) const;

  std::string path_;
  int rank_, size_;
  bool is_named_ = true;
  size_t bytes_;
  char* memory_;
};

}  // namespace cuda_on_host
