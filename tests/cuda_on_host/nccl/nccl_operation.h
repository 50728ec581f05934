// An operation of the played NCCL: messages between ranks, and what becomes of those that came. It
// is tried again and again until all have come.
#pragma once

#include "tests/cuda_on_host/nccl/nccl_link.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cuda_on_host {

class NcclOperation {
 public:
  // What goes ahead of each message. Ranks that call different things are a fault: NCCL itself
  // would hang, or move numbers to where they do not belong.
  struct Kind {
    char name[16];
    uint64_t bytes;
    int32_t type, operation, root, reserved = 0;
  };
  // Messages by rank; those of this rank come to itself.
  using Messages = std::vector<std::vector<char>>;

  NcclOperation(const Kind& kind, int rank, int size);

  // `data`: memory of the device, read when the operation's turn has come.
  void send(int to, const void* data, size_t bytes);
  void expect(int from, size_t bytes);
  // What is done in the end.
  void finish_by(std::function<void(const Messages&)> finish) { finish_ = std::move(finish); }

  // Whether it is complete. Once it is given up it is, and what it was to write is garbage.
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

// Memory of the device as an operation reads it. `is_computed_with`: somebody must have written it.
std::vector<char> read_device(const void* data, size_t bytes, bool is_computed_with);
void write_device(void* data, const std::vector<char>& bytes);

}  // namespace cuda_on_host
