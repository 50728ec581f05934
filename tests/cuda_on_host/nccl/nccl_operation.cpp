#include "tests/cuda_on_host/nccl/nccl_operation.h"

#include "tests/cuda_on_host/device/arena.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/watch.h"
#include "tests/cuda_on_host/runtime.h"

#include <algorithm>
#include <cstring>

namespace cuda_on_host {

std::vector<char> read_device(const void* data, size_t bytes, bool is_computed_with) {
  if (!is_on_device(data)) fault("NCCL is given memory of the host");
  if (is_computed_with && !is_written(data, bytes))
    fault("NCCL is to compute with numbers that nobody has written");
  std::vector<char> read(bytes);
  copy_now(read.data(), data, bytes);
  return read;
}

void write_device(void* data, const std::vector<char>& bytes) {
  if (!is_on_device(data)) fault("NCCL is given memory of the host");
  copy_now(data, bytes.data(), bytes.size());
}

NcclOperation::NcclOperation(const Kind& kind, int rank, int size)
    : kind_(kind), rank_(rank), size_(size) {}

void NcclOperation::send(int to, const void* data, size_t bytes) {
  sent_.push_back({to, data, bytes});
}
void NcclOperation::expect(int from, size_t bytes) { expected_.push_back({from, bytes}); }

std::vector<char> NcclOperation::header(size_t bytes) const {
  Kind kind = kind_;
  kind.bytes = bytes;
  std::vector<char> text(sizeof kind);
  std::memcpy(text.data(), &kind, sizeof kind);
  return text;
}

void NcclOperation::start() {
  is_started_ = true;
  const bool is_computed_with = kind_.operation >= 0;
  for (Sent& message : sent_) {
    message.rest = header(message.bytes);
    const auto data = read_device(message.data, message.bytes, is_computed_with);
    message.rest.insert(message.rest.end(), data.begin(), data.end());
  }
}

void NcclOperation::check(const Expected& message) const {
  const auto want = header(message.bytes);
  if (std::equal(want.begin(), want.end(), message.so_far.begin())) return;
  Kind got;
  std::memcpy(&got, message.so_far.data(), sizeof got);
  fault("NCCL: rank {} calls {} of {} bytes, rank {} calls {} of {} bytes", rank_, kind_.name,
        message.bytes, message.from, got.name, got.bytes);
}

// Messages between two ranks keep their order.
bool NcclOperation::go_on(NcclLink& link) {
  if (!is_started_) start();
  std::vector<bool> is_busy(static_cast<size_t>(size_));
  bool is_complete = true;
  for (Sent& message : sent_) {
    if (is_busy[message.to]) continue;
    for (size_t n = 1; n > 0 && !message.rest.empty();) {
      n = link.write(message.to, message.rest.data(), message.rest.size());
      message.rest.erase(message.rest.begin(), message.rest.begin() + static_cast<long>(n));
    }
    is_busy[message.to] = !message.rest.empty();
    is_complete &= message.rest.empty();
  }
  is_busy.assign(is_busy.size(), false);
  for (Expected& message : expected_) {
    const size_t all = sizeof(Kind) + message.bytes;
    for (size_t n = 1; n > 0 && message.so_far.size() < all && !is_busy[message.from];) {
      std::vector<char> more(all - message.so_far.size());
      n = link.read(message.from, more.data(), more.size());
      message.so_far.insert(message.so_far.end(), more.data(), more.data() + n);
    }
    if (message.so_far.size() >= sizeof(Kind)) check(message);
    is_busy[message.from] = is_busy[message.from] || message.so_far.size() < all;
    is_complete &= message.so_far.size() == all;
  }
  if (!is_complete) return false;
  Messages messages(static_cast<size_t>(size_));
  for (const Expected& message : expected_)
    messages[message.from].assign(message.so_far.begin() + sizeof(Kind), message.so_far.end());
  finish_(messages);
  return true;
}

void NcclOperation::give_up() {
  Messages garbage(static_cast<size_t>(size_));
  for (const Expected& message : expected_) garbage[message.from].assign(message.bytes, '\xFF');
  finish_(garbage);
}

}  // namespace cuda_on_host
