// The backend of ranks on one machine: a byte ring in shared memory for each ordered pair of ranks.
//
// A rank that waits spins for a moment, then sleeps on its bell (a futex). Every rank that writes
// to it, or frees space for it, rings that bell. It wakes from time to time to check that the
// others still live. The segment is a file in the rendezvous's folder, unlinked once all ranks have
// mapped it. Without such a folder it is unnamed memory of the first rank.
#include "parallel/backends/host_backend.h"
#include "parallel/rendezvous/machines.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

namespace booster {

namespace {

constexpr size_t line = 64;                  // cache line
constexpr size_t most_ring_bytes = 1 << 20;  // of one pair
constexpr size_t most_bytes = 32 << 20;      // all rings together: containers often have only 64 MB
constexpr size_t piece_bytes = 64 << 10;     // bytes to copy before notifying the other side
constexpr int spins = 200, yields = 20;
constexpr auto crowded = std::chrono::microseconds(50);
constexpr auto longest_sleep = std::chrono::milliseconds(50);

// Yields to the core's other hardware thread.
void spin_once() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

struct alignas(line) Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> asleep;
};

// Bytes ever written and read; the difference is the ring's content.
struct Ring {
  alignas(line) std::atomic<uint64_t> written;
  alignas(line) std::atomic<uint64_t> read;
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

size_t ring_bytes(int ranks) {
  const size_t pairs = static_cast<size_t>(ranks) * ranks;
  size_t bytes = most_ring_bytes;
  while (bytes > 4096 && bytes * pairs > most_bytes) bytes /= 2;
  return bytes;
}

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr,
                 0);
}

// The mapped file.
class Segment {
 public:
  Segment(int file, int ranks)
      : ranks_(ranks),
        capacity_(ring_bytes(ranks)),
        bytes_(bytes_for(ranks)),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) {
    if (memory_ == MAP_FAILED)
      fail_run("shm: cannot map {} bytes: {}", bytes_, std::strerror(errno));
  }
  ~Segment() { munmap(memory_, bytes_); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  static size_t bytes_for(int ranks) {
    return ranks * sizeof(Bell) +
           static_cast<size_t>(ranks) * ranks * (sizeof(Ring) + ring_bytes(ranks));
  }
  size_t capacity() const { return capacity_; }
  Bell& bell(int rank) { return static_cast<Bell*>(memory_)[rank]; }
  Ring& ring(int from, int to) {
    auto* rings = static_cast<std::byte*>(memory_) + ranks_ * sizeof(Bell);
    return *reinterpret_cast<Ring*>(rings + (from * ranks_ + to) * (sizeof(Ring) + capacity_));
  }

 private:
  int ranks_;
  size_t capacity_, bytes_;
  void* memory_;
};

class SharedMemoryBackend final : public HostBackend {
 public:
  SharedMemoryBackend(Membership members, int file);
  const char* name() const override { return "shm"; }
  void stop() override {
    stopped_ = true;
    ring_bell(me());
  }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override;

 private:
  int me() const { return members().rank; }
  int world_rank() const { return members().ranks[me()]; }
  bool write_some(Outgoing& message);
  bool read_some(Incoming& message);
  template <class Message, class Move>
  bool advance(std::vector<Message>& messages, Move&& move);
  void ring_bell(int rank);
  // Sleeps until this rank's bell has rung more than `seen` times, or for a moment.
  void sleep(uint32_t seen);
  void give_up_if_hopeless(std::span<const int> awaited, Clock::time_point since, SlowWait& wait);

  Segment segment_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> stopped_ = false;
  std::vector<bool> busy_;
};

// Uses locks to detect ended ranks. Shared memory does not show them, and a store shows them only
// while rank 0 runs it.
SharedMemoryBackend::SharedMemoryBackend(Membership joined, int file)
    : HostBackend(std::move(joined)), segment_(file, members().size()), timeout_(group_timeout()) {
  if (members().rendezvous->folder().empty()) depend_on(0);
}

void SharedMemoryBackend::ring_bell(int rank) {
  Bell& bell = segment_.bell(rank);
  bell.rings.fetch_add(1);
  if (bell.asleep.load()) futex(&bell.rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void SharedMemoryBackend::sleep(uint32_t seen) {
  Bell& bell = segment_.bell(me());
  const timespec limit{0, std::chrono::nanoseconds(longest_sleep).count()};
  bell.asleep = 1;
  futex(&bell.rings, FUTEX_WAIT, seen, &limit);
  bell.asleep = 0;
}

// Moves one piece of the message and shortens the message; false if the ring is full.
bool SharedMemoryBackend::write_some(Outgoing& message) {
  Ring& ring = segment_.ring(me(), message.to);
  const size_t capacity = segment_.capacity();
  const uint64_t written = ring.written.load(std::memory_order_relaxed);
  const size_t room = capacity - (written - ring.read.load(std::memory_order_acquire));
  const size_t at = written % capacity;
  const size_t n = std::min({room, message.data.size(), capacity - at, piece_bytes});
  if (n == 0) return false;
  std::memcpy(ring.bytes() + at, message.data.data(), n);
  ring.written.store(written + n, std::memory_order_release);
  message.data = message.data.subspan(n);
  ring_bell(message.to);
  return true;
}

bool SharedMemoryBackend::read_some(Incoming& message) {
  Ring& ring = segment_.ring(message.from, me());
  const size_t capacity = segment_.capacity();
  const uint64_t read = ring.read.load(std::memory_order_relaxed);
  const size_t filled = ring.written.load(std::memory_order_acquire) - read;
  const size_t at = read % capacity;
  const size_t n = std::min({filled, message.data.size(), capacity - at, piece_bytes});
  if (n == 0) return false;
  std::memcpy(message.data.data(), ring.bytes() + at, n);
  ring.read.store(read + n, std::memory_order_release);
  message.data = message.data.subspan(n);
  ring_bell(message.from);
  return true;
}

int peer_of(const Outgoing& message) { return message.to; }
int peer_of(const Incoming& message) { return message.from; }

// Moves each peer's first unfinished message; drops finished ones.
template <class Message, class Move>
bool SharedMemoryBackend::advance(std::vector<Message>& messages, Move&& move) {
  bool moved = false;
  busy_.assign(members().size(), false);
  for (Message& message : messages) {
    if (busy_[peer_of(message)]) continue;
    moved |= move(message);
    busy_[peer_of(message)] = !message.data.empty();
  }
  std::erase_if(messages, [](const Message& message) { return message.data.empty(); });
  return moved;
}

void SharedMemoryBackend::give_up_if_hopeless(std::span<const int> awaited, Clock::time_point since,
                                              SlowWait& wait) {
  const int waits_for = awaited[0];
  if (stopped_)
    fail_run("the group was closed while an operation waited for {}", members().name_of(waits_for));
  if (const std::string problem = trouble_in_wait(awaited, since); !problem.empty())
    fail_run("{}", problem);
  if (Clock::now() - since > timeout_) fail_timeout(awaited);
  still_waits(wait, waits_for);
}

void SharedMemoryBackend::exchange(std::span<const Outgoing> outgoing,
                                   std::span<const Incoming> incoming) {
  std::vector<Outgoing> to_write(outgoing.begin(), outgoing.end());
  std::vector<Incoming> to_read(incoming.begin(), incoming.end());
  const auto move = [&] {
    const bool wrote = advance(to_write, [&](Outgoing& message) { return write_some(message); });
    return advance(to_read, [&](Incoming& message) { return read_some(message); }) || wrote;
  };
  auto last_move = Clock::now();
  std::optional<SlowWait> wait;  // since the last move
  for (int idle = 0;;) {
    const uint32_t seen = segment_.bell(me()).rings.load();
    const bool moved = move();
    if (to_write.empty() && to_read.empty()) return;
    if (moved) {
      idle = 0;
      wait.reset();
    } else if (++idle < spins) {
      spin_once();
    } else if (idle < spins + yields) {
      const auto yielded = Clock::now();
      if (idle == spins) last_move = yielded;
      sched_yield();
      // If others need the core, this thread returns late from a yield; a sleeping thread is woken
      // by a message immediately.
      if (Clock::now() - yielded > crowded) idle = spins + yields - 1;
    } else {
      if (!wait) wait.emplace(world_rank());
      sleep(seen);
      // Data that a rank wrote before it ended still counts, so look once more before giving up.
      if (segment_.bell(me()).rings.load() != seen || move()) continue;
      std::vector<int> awaited;
      for (const Incoming& message : to_read) awaited.push_back(message.from);
      for (const Outgoing& message : to_write) awaited.push_back(message.to);
      give_up_if_hopeless(awaited, last_move, *wait);
    }
  }
}

// A file in memory, and where the other ranks find it.
struct SegmentFile {
  int file = -1;  // none if there is no space
  std::string path;
};

SegmentFile create_segment(const Membership& members) {
  SegmentFile made;
  if (const std::string folder = members.rendezvous->folder(); folder.empty()) {
    made.file = memfd_create("booster", MFD_CLOEXEC);
    made.path = fmt::format("/proc/{}/fd/{}", getpid(), made.file);
  } else {
    made.path = fmt::format("{}/{}.shm-segment", folder, members.name);
    made.file = open(made.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
  if (made.file < 0) return {};
  const auto bytes = static_cast<off_t>(Segment::bytes_for(members.size()));
  // A sparse file would end this process by SIGBUS when memory runs out.
  int refusal = EINTR;
  while (refusal == EINTR) refusal = posix_fallocate(made.file, 0, bytes);
  if (refusal == 0) return made;
  close(made.file);
  unlink(made.path.c_str());
  return {};
}

// Returns the descriptor of rank 0's file; -1 if this process may not open it. Throws for a shorter
// file, which would end this process by SIGBUS.
int open_segment(const std::string& path, int ranks) {
  const int no_link = path.starts_with("/proc/") ? 0 : O_NOFOLLOW;
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | no_link | O_NONBLOCK);
  if (file < 0) return -1;
  struct stat found = {};
  const auto want = static_cast<off_t>(Segment::bytes_for(ranks));
  if (fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == want) return file;
  close(file);
  fail_run("shm: {} is not the segment of {} ranks; got {} bytes, want a file of {}", path, ranks,
           found.st_size, want);
}

}  // namespace

std::unique_ptr<HostBackend> make_shared_memory(Membership members) {
  if (Machines::of(members).count() > 1) return nullptr;
  Rendezvous& rendezvous = *members.rendezvous;
  const std::string key = members.name + ".shm";
  const bool creates = members.rank == 0;
  SegmentFile segment;
  if (creates) {
    segment = create_segment(members);
    rendezvous.put(key, segment.path);
  } else if (segment.path = rendezvous.get(key, members.ranks); !segment.path.empty()) {
    segment.file = open_segment(segment.path, members.size());
  }
  const bool all_can = members.all_say("opens", segment.file >= 0);
  if (creates && !segment.path.starts_with("/proc/")) unlink(segment.path.c_str());
  std::unique_ptr<HostBackend> backend;
  if (all_can) backend = std::make_unique<SharedMemoryBackend>(std::move(members), segment.file);
  if (segment.file >= 0) close(segment.file);
  return backend;
}

}  // namespace booster
