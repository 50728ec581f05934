// Group: a set of ranks, and the collectives between them.
//
// A handle; copies share one group. Every member must call the same collectives in the same order,
// with the same element count, dtype and tag. A difference throws on all members and names the
// ranks (BOOSTER_CHECK_COLLECTIVES=0 skips that check). Each collective has an `..._async` form
// that returns immediately. Operations run in issue order on the group's own thread, and
// Work::wait() throws their errors. A rank that has died, or that does not arrive within
// BOOSTER_TIMEOUT seconds (600), causes an error that names it. After any error the group can only
// be left. Destroying the last handle abandons incomplete operations.
//
// A collective that writes a tensor raises the tensor's version on the caller's thread before it
// returns. Earlier 16-bit copies, and tensors saved by the tape, thus count as stale. A broadcast
// writes nothing at its root. Between the issue and Work::wait() the new version has no values yet:
// a copy made then would be wrong but count as current.
//
// Tensors may be on any device, and on different devices on different ranks. An operation runs
// after the work that the caller has queued there. Ranks that each have their own GPU use NCCL;
// wait() then only orders the caller's next work after the operation (docs/cuda.md). All other
// ranks copy through the host, in the stream's order.
//
// Reductions give the same bits on all ranks, and on one machine as on several. Use a group on one
// thread of a program at a time.
#pragma once

#include "core/tensor/storage.h"
#include "parallel/operations/operation.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct Membership;
struct OperationTag;
class Rendezvous;

class Group {
 public:
  // Makes a group of this rank alone.
  Group();
  // Makes a group of the ranks that meet() at a place: a private folder or tcp://HOST:PORT, as in
  // World. Collective over them.
  Group(const std::string& place, int rank, int size);
  // Makes a group of all ranks of a rendezvous. Collective over them.
  explicit Group(std::shared_ptr<Rendezvous> rendezvous);

  int rank() const;
  int size() const;
  // Returns the members' ranks in the world, in this group's order.
  const std::vector<int>& world_ranks() const;
  // Returns "local", "shm", "shm+gloo" (ranks of several machines), "gloo" or "mpi"; "nccl" once
  // GPU tensors have used it.
  std::string backend() const;

  // Returns a group of some members, given by their ranks in this group, in the new group's order.
  // They must include this rank. Only the members call it. Several groups of the same members are
  // made in the same order on all of them.
  Group subgroup(const std::vector<int>& ranks) const;

  // Reports to the other ranks that this rank stops taking part, and why. Their present and later
  // waits for it throw that reason.
  void give_up(const std::string& reason) const;

  // Returns the number of earlier calls. It is the same on all members that make the same calls.
  uint32_t next_number() const;

  // Sets each member's place, such as "data 1, tensor 0" (parallel/mesh.h), by rank. On this rank,
  // errors of all groups of the run then name these places.
  void name_places(const std::vector<std::string>& places) const;

  // `tag`: the operation's purpose (parallel/operations/operation_tag.h), the same on all ranks.
  // data = reduction of all ranks' data.
  Work all_reduce_async(const Buffer& data, CollectiveOp reduction = CollectiveOp::sum) const;
  Work all_reduce_async(const Buffer& data, CollectiveOp reduction, OperationTag tag) const;
  // Sets data to the root's data.
  Work broadcast_async(const Buffer& data, int root = 0) const;
  // Sets `out` to all ranks' `in`, concatenated; out.count == size() * in.count.
  Work all_gather_async(const Buffer& out, const Buffer& in) const;
  Work all_gather_async(const Buffer& out, const Buffer& in, OperationTag tag) const;
  // Sets `out` to this rank's part of the reduction of all ranks' `in`; in.count == size() *
  // out.count.
  Work reduce_scatter_async(const Buffer& out, const Buffer& in,
                            CollectiveOp reduction = CollectiveOp::sum) const;
  Work reduce_scatter_async(const Buffer& out, const Buffer& in, CollectiveOp reduction,
                            OperationTag tag) const;
  // out part r = part rank() of rank r's `in`. Both have the same count, a multiple of size(), and
  // do not overlap.
  Work all_to_all_async(const Buffer& out, const Buffer& in) const;
  Work send_async(const Buffer& data, int to) const;
  Work receive_async(const Buffer& data, int from) const;
  // Sends and receives at once: for rings, where all ranks send before any receives.
  Work send_receive_async(const Buffer& out, int to, const Buffer& in, int from) const;
  // Completes when all ranks have arrived.
  Work barrier_async() const;

  void all_reduce(const Buffer& data, CollectiveOp reduction = CollectiveOp::sum) const {
    all_reduce_async(data, reduction).wait();
  }
  void broadcast(const Buffer& data, int root = 0) const { broadcast_async(data, root).wait(); }
  void all_gather(const Buffer& out, const Buffer& in) const { all_gather_async(out, in).wait(); }
  void reduce_scatter(const Buffer& out, const Buffer& in,
                      CollectiveOp reduction = CollectiveOp::sum) const {
    reduce_scatter_async(out, in, reduction).wait();
  }
  void all_to_all(const Buffer& out, const Buffer& in) const { all_to_all_async(out, in).wait(); }
  void send(const Buffer& data, int to) const { send_async(data, to).wait(); }
  void receive(const Buffer& data, int from) const { receive_async(data, from).wait(); }
  void send_receive(const Buffer& out, int to, const Buffer& in, int from) const {
    send_receive_async(out, to, in, from).wait();
  }
  void barrier() const { barrier_async().wait(); }

 private:
  struct State;
  explicit Group(Membership members);
  // The memory of an operation.
  struct Memory {
    const Buffer* read = nullptr;
    const Buffer* written = nullptr;
  };
  template <class Operation>
  Work issue(const char* name, OperationTag tag, Memory memory, Operation&& operation) const;
  void check_peer(const char* name, int rank) const;

  Handle<State, "group"> state_;
};

// --- Gathers every rank's text on every rank, for reports. A collective: all ranks call it.

// Returns the texts by rank.
std::vector<std::string> gather_text(const std::string& mine, const Group& group);
// Returns a function that gives all ranks' numbers, by rank, of this rank's. A collective, for
// DataLoaderOptions::gather.
std::function<std::vector<int64_t>(int64_t number)> gather_numbers(const Group& group);

}  // namespace booster
