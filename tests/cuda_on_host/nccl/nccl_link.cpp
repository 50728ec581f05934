#include "tests/cuda_on_host/nccl/nccl_link.h"

#include "tests/cuda_on_host/device/fault.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cuda_on_host {

constexpr size_t ring_bytes = 64 << 10;

// The memory is initially zero, which is the valid initial state of everything here.
struct alignas(64) NcclLink::Seat {
  std::atomic<int> has_come, has_left;
  Gpu gpu;
};
struct alignas(64) NcclLink::Ring {
  std::atomic<uint64_t> written, read;
  char data[ring_bytes];
};

NcclLink::NcclLink(const std::string& name, int rank, int size, const Gpu& gpu)
    : path_("/dev/shm/nccl-on-host-" + name),
      rank_(rank),
      size_(size),
      bytes_(static_cast<size_t>(size) * sizeof(Seat) +
             static_cast<size_t>(size) * static_cast<size_t>(size) * sizeof(Ring)) {
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    fault("ncclCommInitRankConfig: no file {}", path_);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) fault("ncclCommInitRankConfig: cannot map {}", path_);
  memory_ = static_cast<char*>(memory);
  seat(rank).gpu = gpu;
}

NcclLink::~NcclLink() {
  if (is_named_ && rank_ == 0) unlink(path_.c_str());
  munmap(memory_, bytes_);
}

NcclLink::Seat& NcclLink::seat(int rank) const { return reinterpret_cast<Seat*>(memory_)[rank]; }
NcclLink::Ring& NcclLink::ring(int from, int to) const {
  auto* rings = reinterpret_cast<Ring*>(memory_ + static_cast<size_t>(size_) * sizeof(Seat));
  return rings[from * size_ + to];
}

void NcclLink::join() { seat(rank_).has_come = 1; }
bool NcclLink::is_complete() {
  for (int rank = 0; rank < size_; ++rank)
    if (!seat(rank).has_come) return false;
  if (is_named_ && rank_ == 0) unlink(path_.c_str());
  is_named_ = false;
  return true;
}

bool NcclLink::has_one_gpu_twice() const {
  for (int a = 0; a < size_; ++a)
    for (int b = 0; b < a; ++b)
      if (seat(a).gpu == seat(b).gpu) return true;
  return false;
}

void NcclLink::leave() { seat(rank_).has_left = 1; }
bool NcclLink::is_left_by_all() const {
  for (int rank = 0; rank < size_; ++rank)
    if (!seat(rank).has_left) return false;
  return true;
}

size_t NcclLink::write(int to, const char* data, size_t bytes) {
  Ring& target = ring(rank_, to);
  const uint64_t written = target.written;
  const size_t at = written % ring_bytes, room = ring_bytes - (written - target.read);
  const size_t n = std::min({bytes, room, ring_bytes - at});
  std::memcpy(target.data + at, data, n);
  target.written = written + n;
  return n;
}

size_t NcclLink::read(int from, char* data, size_t bytes) {
  Ring& source = ring(from, rank_);
  const uint64_t read = source.read;
  const size_t at = read % ring_bytes, filled = source.written - read;
  const size_t n = std::min({bytes, filled, ring_bytes - at});
  std::memcpy(data, source.data + at, n);
  source.read = read + n;
  return n;
}

}  // namespace cuda_on_host
