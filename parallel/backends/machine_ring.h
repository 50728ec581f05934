// Reductions over several machines in which each number crosses a link between two of them once on
// its way to the sum, and once more on its way back.
//
// Machines stand in a ring, in the order of their ranks. The first reduces what its ranks have,
// each further one adds what its own have, and the last one finishes; results then go once more
// around the ring. So the order is that of all ranks, as on one machine, and so are the bits. The
// numbers are cut into lanes, each with one rank per machine that handles it, and those into
// blocks, so that all links and the memory of all machines are busy at once. One thread at a time.
#pragma once

#include "parallel/backends/backend.h"
#include "parallel/rendezvous/machines.h"

#include <functional>
#include <span>
#include <vector>

namespace booster {

class MachineRing {
 public:
  // That of the group's backend.
  using Exchange = std::function<void(std::span<const Outgoing>, std::span<const Incoming>)>;
  // Each machine's members must follow one another in the group.
  MachineRing(const Machines& machines, int rank, Exchange exchange);

  // In place.
  void reduce_to_all(const Buffer& data, CollectiveOp reduction);
  // `in` has as many elements for each rank as `out`.
  void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction);

  // The most that a machine sends, relative to the data that each rank has.
  double sent_to_all(DType dtype) const;
  double sent_to_owners(DType dtype) const;

 private:
  struct Task;
  struct Block {
    int64_t first = 0, length = 0;
    int owner = 0;  // of the result, if it has one owner
  };
  struct Messages {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
  };
  // What the handler of a lane keeps.
  struct Lane {
    std::vector<std::byte> raw;                 // of the other ranks here
    std::vector<std::byte> incoming, outgoing;  // partial sums
    std::vector<std::byte> result;              // that belongs to another rank
  };

  void run(const Task& task);
  void step(const Task& task, int64_t step);
  Block block_of(const Task& task, int lane, int64_t index) const;
  void collect(const Task& task, int lane, const Block& block, Messages& messages);
  void hand_on(const Task& task, int lane, int64_t step, Messages& messages);
  void pass_around(const Task& task, int lane, int64_t step, Messages& messages);
  void deliver(const Task& task, int lane, const Block& block, Messages& messages);
  void reduce(const Task& task, int lane, const Block& block);

  int lanes() const { return static_cast<int>(lanes_.size()); }
  bool handles(int lane) const { return machines_.owner(here_, lane) == rank_; }

  Machines machines_;
  int rank_, here_, last_;  // own rank; own machine and the last one
  Exchange exchange_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> scratch_;
};

}  // namespace booster
