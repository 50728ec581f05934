#include "tests/cuda_on_host/device/block.h"

#include "tests/cuda_on_host/device/chance.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/shared.h"

#include <memory>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_on_host {

thread_local constinit Stack running_stack [[gnu::tls_model("initial-exec")]] = {};

namespace {

constexpr int warp_size = 32;
constexpr int most_threads = 1024;

enum class State { ready, at_barrier, in_warp, ended };

struct Thread {
  State state = State::ready;
  Fiber* fiber = nullptr;  // set once it has started and had to wait
};

// Lanes that meet to exchange values. The values stay until they meet again.
struct Warp {
  unsigned come = 0, mask = 0;
  const char* what = nullptr;  // the instruction they meet for
  uint64_t meetings = 0;       // only those that order memory accesses
  int turn = 0;
  Gift gifts[2][warp_size];
};

class Block {
 public:
  void begin(const Launch& launch);
  void run(uint64_t index);
  void wait_for_all();
  void meet(unsigned mask, const char* what, bool orders);
  const Gift* gather(unsigned mask, const char* what, bool orders, const Gift& mine);
  [[noreturn]] void end();
  Accessor accessor() const;
  bool is_running() const { return current_ >= 0; }
  std::string where() const;
  Place place_of(const void* address) const;

 private:
  static void work();
  void start(uint64_t index);
  void next();
  void run_thread();
  void wake(int thread);
  void suspend(State state);
  void check_all_ended();
  int lane() const { return current_ % warp_size; }
  Warp& warp() { return warps_[current_ / warp_size]; }

  const Launch* launch_ = nullptr;
  uint32_t launches_ = 0;
  uint64_t index_ = 0;
  int current_ = -1, count_ = 0, arrived_ = 0, barriers_ = 0;
  bool failed_ = false;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> ready_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;
};

Block& the_block() {
  static Block* block = new Block;  // lives as long as the device
  return *block;
}

void Block::begin(const Launch& launch) {
  launch_ = &launch;
  ++launches_;
}

void Block::start(uint64_t index) {
  index_ = index;
  const dim3 size = launch_->block;
  count_ = static_cast<int>(size.x * size.y * size.z);
  threads_.assign(count_, {});
  warps_.assign((count_ + warp_size - 1) / warp_size, {});
  ready_.resize(count_);
  for (int i = 0; i < count_; ++i) ready_[i] = i;
  arrived_ = barriers_ = 0;
  blockDim = size;
  gridDim = launch_->grid;
  blockIdx = {static_cast<unsigned>(index % gridDim.x),
              static_cast<unsigned>(index / gridDim.x % gridDim.y),
              static_cast<unsigned>(index / gridDim.x / gridDim.y)};
  begin_shared_memory();
}

// Runs until no thread can continue. A fiber runs thread after thread; a waiting thread keeps its
// fiber.
void Block::run(uint64_t index) {
  start(index);
  failed_ = false;
  while (!ready_.empty() && !failed_) {
    next();
    Fiber*& own = threads_[current_].fiber;
    if (!own && idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&Block::work));
      idle_.push_back(fibers_.back().get());
    }
    if (!own) {
      running_ = idle_.back();
      idle_.pop_back();
    } else {
      running_ = own;
    }
    running_stack = running_->stack();
    running_->enter();
    running_stack = {};
  }
  if (!failed_) check_all_ended();
  current_ = -1;
  if (!failed_) return;
  fibers_.clear();  // some are in the middle of a thread
  idle_.clear();
}

// Chooses the next thread.
void Block::next() {
  const size_t at = chance(ready_.size());
  current_ = ready_[at];
  ready_[at] = ready_.back();
  ready_.pop_back();
  const unsigned i = static_cast<unsigned>(current_);
  threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

void Block::work() {
  Block& block = the_block();
  for (;;) block.run_thread();
}

void Block::run_thread() {
  launch_->run(launch_->call.get());
  threads_[current_].state = State::ended;
  threads_[current_].fiber = nullptr;
  if (!ready_.empty()) {
    next();
    if (!threads_[current_].fiber) return;  // a new thread runs here
    // A waiting thread has its own fiber: the scheduler enters it.
    ready_.push_back(current_);
  }
  Fiber* mine = running_;
  idle_.push_back(mine);
  mine->leave();
}

void Block::wake(int thread) {
  threads_[thread].state = State::ready;
  ready_.push_back(thread);
}

void Block::suspend(State state) {
  threads_[current_].state = state;
  threads_[current_].fiber = running_;
  running_->leave();
}

void Block::wait_for_all() {
  if (++arrived_ < count_) return suspend(State::at_barrier);
  arrived_ = 0;
  ++barriers_;
  const int last = current_;
  for (int i = 0; i < count_; ++i)
    if (i != last) wake(i);
  if (count_ == 1) return;
  wake(last);
  suspend(State::ready);
}

void Block::meet(unsigned mask, const char* what, bool orders) {
  if (!(mask >> lane() & 1))
    fault("a lane that the mask {:#x} does not name takes part in a warp's exchange", mask);
  Warp& mine = warp();
  if (mine.come != 0 && mine.mask != mask)
    fault("lanes of one warp meet with different masks: {:#x} and {:#x}", mine.mask, mask);
  if (mine.come != 0 && mine.what != what && std::strcmp(mine.what, what) != 0)
    fault("lanes of one warp meet for different things: {} and {}", mine.what, what);
  mine.mask = mask;
  mine.what = what;
  mine.come |= 1u << lane();
  if (mine.come != mask) return suspend(State::in_warp);
  mine.come = 0;
  mine.meetings += orders;
  mine.turn = 1 - mine.turn;
  const int first = current_ - lane(), self = current_;
  for (int i = 0; i < warp_size; ++i)
    if ((mask >> i & 1) && first + i != self) wake(first + i);
}

const Gift* Block::gather(unsigned mask, const char* what, bool orders, const Gift& mine) {
  warp().gifts[warp().turn][lane()] = mine;
  meet(mask, what, orders);
  return warp().gifts[1 - warp().turn];
}

void Block::check_all_ended() {
  int barrier = 0, warp = 0, ended = 0;
  for (const Thread& thread : threads_) {
    barrier += thread.state == State::at_barrier;
    warp += thread.state == State::in_warp;
    ended += thread.state == State::ended;
  }
  if (ended == count_) return;
  failed_ = true;
  for (int i = 0; i < count_; ++i)
    if (threads_[i].state != State::ended) current_ = i;
  record_fault(fmt::format(
      "threads wait for others that do not come: {} at a barrier, {} for lanes of their warp, {} "
      "have ended",
      barrier, warp, ended));
}

void Block::end() {
  failed_ = true;
  running_->leave();
  __builtin_unreachable();
}

Accessor Block::accessor() const {
  return {launches_, static_cast<uint32_t>(index_), static_cast<uint16_t>(current_),
          static_cast<uint16_t>(barriers_),
          static_cast<uint16_t>(warps_[current_ / warp_size].meetings)};
}

std::string Block::where() const {
  if (!is_running()) return "";
  return fmt::format(" in block {}, thread {} of {}", index_, current_, launch_->name);
}

Place Block::place_of(const void* address) const {
  const char* p = static_cast<const char*>(address);
  const auto within = [p](const void* begin, size_t bytes) {
    return p >= begin && p < static_cast<const char*>(begin) + bytes;
  };
  if (is_shared_memory(address)) return Place::shared;
  if (within(launch_->arguments, launch_->argument_bytes)) return Place::argument;
  for (const uint3* place : {&threadIdx, &blockIdx})
    if (within(place, sizeof *place)) return Place::argument;
  for (const dim3* size : {&blockDim, &gridDim})
    if (within(size, sizeof *size)) return Place::argument;
  for (const auto& fiber : fibers_)
    if (fiber->stack().holds(address)) return Place::other_stack;
  return Place::elsewhere;
}

}  // namespace

void run_launch(const Launch& launch) {
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const uint64_t first = chance(blocks);  // the first block is random
  the_block().begin(launch);
  for (uint64_t i = 0; i < blocks && !has_fault(); ++i) the_block().run((first + i) % blocks);
}

std::string where_in_kernel() { return the_block().where(); }
void end_launch() { the_block().end(); }
Accessor accessor() { return the_block().accessor(); }
Place place_of(const void* address) { return the_block().place_of(address); }

void wait_for_block() { the_block().wait_for_all(); }
void wait_for_warp(unsigned mask) { the_block().meet(mask, "a barrier", true); }
int lane_of_thread() { return the_block().accessor().thread % warp_size; }
int thread_of_block() { return the_block().accessor().thread; }

void exchange_in_warp(unsigned mask, const void* mine, void* result, size_t bytes, int source) {
  if (!(mask >> source & 1))
    fault("a lane asks for the value of lane {}, which the mask {:#x} does not name", source, mask);
  Gift gift = {};
  std::memcpy(&gift, mine, bytes);
  std::memcpy(result, the_block().gather(mask, "a shuffle", true, gift) + source, bytes);
}

const Gift* gather_in_warp(const char* instruction, const Gift& mine) {
  return the_block().gather(0xFFFFFFFF, instruction, false, mine);
}

}  // namespace cuda_on_host
