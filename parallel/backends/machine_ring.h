// Reductions over several machines. Each value crosses a link between two machines once towards the
// sum, and once more on its return.
//
// The machines form a ring, in rank order. The first reduces its ranks' values, each further
// machine adds its own, and the last one finishes. Results then travel once more around the ring.
// The order is therefore the rank order, as on one machine, and the bits are the same. Values are
// divided into lanes, each with one handling rank per machine, and lanes into blocks. All links and
// all machines' memory are thus busy at once. One thread at a time.
#pragma once

#include "parallel/backends/host_backend.h"
#include "parallel/rendezvous/machines.h"

#include <functional>
#include <span>
#include <vector>

namespace booster {

class MachineRing {
 public:
  // The exchange of the group's backend.
  using Exchange = std::function<void(std::span<const Outgoing>, std::span<const Incoming>)>;
  // Each machine's members must be consecutive in the group.
  MachineRing(const Machines& machines, int rank, Exchange exchange);

  // In-place.
  void reduce_to_all(const Buffer& data, CollectiveOp reduction);
  // Reduces rank r's part of `in` on rank r. `in` has out.count elements for each rank.
  void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction);

  // Returns the maximum that a machine sends, relative to each rank's data.
  double sent_to_all(DType dtype) const;
  double sent_to_owners(DType dtype) const;

 private:
  struct Task;
  struct Block {
    int64_t first = 0, length = 0;
    int owner = 0;  // rank that gets the result, if only one does
  };
  struct Messages {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
  };
  // Memory of a lane's handler.
  struct Lane {
    std::vector<std::byte> raw;                 // from the other ranks of this machine
    std::vector<std::byte> incoming, outgoing;  // partial sums
    std::vector<std::byte> result;              // if it belongs to another rank
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
