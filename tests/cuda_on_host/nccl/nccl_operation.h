// An operation of the emulated NCCL: the messages between ranks and the processing of those
// received. It is retried until all have arrived.
#pragma once

#include "tests/cuda_on_host/nccl/nccl_link.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cuda_on_host {

class NcclOperation {
 public:
  // The header of each message. Ranks that make different calls are a fault: NCCL itself would
  // hang, or move data to the wrong place.
  struct Kind {
    char name[16];
    uint64_t bytes;
    int32_t type, operation, root, reserved = 0;
  };
  // Messages by sending rank, including this rank's messages to itself.
  using Messages = std::vector<std::vector<char>>;

  NcclOperation(const Kind& kind, int rank, int size);

  // `data` is device memory, read when the operation's turn has come.
  void send(int to, const void* data, size_t bytes);
  void expect(int from, size_t bytes);
  // Sets the final step.
  void finish_by(std::function<void(const Messages&)> finish) { finish_ = std::move(finish); }

  // Makes progress; returns whether the operation is complete. An abandoned operation counts as
  // complete, and its output is garbage.
  bool go_on(NcclLink& link);
  void give_up();

 private:
  struct Sent {
    int to;
    const void* data;
    size_t bytes;
    std::vector<char> rest = {};
  };
  struct Expected {
    int from;
    size_t bytes;
    std::vector<char> so_far = {};
  };
  std::vector<char> header(size_t bytes) const;
  void start();
  void check(const Expected& message) const;

  Kind kind_;
  int rank_, size_;
  bool is_started_ = false;
  std::vector<Sent> sent_;
  std::vector<Expected> expected_;
  std::function<void(const Messages&)> finish_;
};

// Returns device memory as an operation reads it. `is_computed_with`: it must have been written.
std::vector<char> read_device(const void* data, size_t bytes, bool is_computed_with);
void write_device(void* data, const std::vector<char>& bytes);

}  // namespace cuda_on_host
