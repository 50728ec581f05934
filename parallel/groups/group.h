// Group: some ranks that work together, and the collectives between them.
//
// A handle; copies share one group. Every member must call the same collectives in the same order,
// with the same element count, dtype and tag; a difference is an error on all members that names
// the ranks (BOOSTER_CHECK_COLLECTIVES=0 saves that check). Each collective has a form `..._async`
// that returns at once: operations run in the order of issue on the group's own thread, and errors
// are thrown by Work::wait(). A rank that has died is an error that names it, and so is one that
// does not come within BOOSTER_TIMEOUT seconds (600). After any error the group can only be left.
// What is not complete when the last handle goes is given up.
//
// A collective that writes a tensor raises its version, on the caller's thread and before it
// returns, so that copies in 16 bits and what the tape saved are known to be old. A broadcast
// writes nothing at its root. Between the issue and Work::wait() the new version has no numbers
// yet: a copy taken then would be wrong and count as up to date.
//
// Tensors may lie on any device, and ranks on different ones: what the caller has queued there
// comes first. Ranks with a GPU each use NCCL, and wait() only puts what the caller queues next
// behind it (docs/cuda.md). All else is copied to the host and back, in the stream's order.
//
// Reductions give the same bits on all ranks, and the same on one machine and on several. One
// thread of a program should use a group at a time.
#pragma once

#include "parallel/operations/buffer.h"
#include "parallel/operations/operation_tag.h"
#include "parallel/operations/reduction.h"
#include "parallel/operations/work.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

struct Membership;
class Rendezvous;

class Group {
 public:
  // This rank alone.
  Group();
  // The ranks that meet() at a place, a private folder or tcp://HOST:PORT, as World has it. All
  // must call it.
  Group(const std::string& place, int rank, int size);
  // All ranks of a rendezvous; all must call it.
  explicit Group(std::shared_ptr<Rendezvous> rendezvous);

  int rank() const;
  int size() const;
  // The members' ranks in the world, in the order of this group.
  const std::vector<int>& world_ranks() const;
  // "local", "shm", "shm+gloo" (ranks of several machines), "gloo" or "mpi"; "nccl" once tensors on
  // GPUs have gone by it.
  std::string backend() const;

  // The group of these members of this group (their ranks here, own rank among them, in the order
  // in which they shall count). Only they call it; groups with the same members in the same order.
  Group subgroup(const std::vector<int>& ranks) const;

  // Tells the other ranks that this one works no more on what they do together, and why: those who
  // wait for it, now or later, get an error that says so.
  void give_up(const std::string& reason) const;

  // Counts its calls, from 0: one number on all members that make the same calls.
  uint32_t next_number() const;

  // Where each member stands, such as "data 1, tensor 0" (parallel/mesh.h), by rank. From now on
  // errors of all groups of the run say it of these ranks; only this rank notes it.
  void name_places(const std::vector<std::string>& places) const;

  // `tag`: what it is for, which has to be the same on all ranks.
  // data = reduction of all ranks' data.
  Work all_reduce_async(const Buffer& data, CollectiveOp reduction = CollectiveOp::sum,
                        OperationTag tag = {}) const;
  // data = the root's data.
  Work broadcast_async(const Buffer& data, int root = 0) const;
  // out = all ranks' `in`, one after the other; out.count == size() * in.count.
  Work all_gather_async(const Buffer& out, const Buffer& in, OperationTag tag = {}) const;
  // out = this rank's part of the reduction of all ranks' `in`; in.count == size() * out.count.
  Work reduce_scatter_async(const Buffer& out, const Buffer& in,
                            CollectiveOp reduction = CollectiveOp::sum,
                            OperationTag tag = {}) const;
  // Part r of `in` becomes part rank() of rank r's `out`; both have the same count, a multiple of
  // size(), and do not overlap.
  Work all_to_all_async(const Buffer& out, const Buffer& in) const;
  Work send_async(const Buffer& data, int to) const;
  Work receive_async(const Buffer& data, int from) const;
  // Both at once: for rings, where everybody sends before anybody receives.
  Work send_receive_async(const Buffer& out, int to, const Buffer& in, int from) const;
  // Complete when all ranks have come to it.
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
  // What an operation touches.
  struct Memory {
    const Buffer* read = nullptr;
    const Buffer* written = nullptr;
  };
  template <class Operation>
  Work issue(const char* name, OperationTag tag, Memory memory, Operation&& operation) const;
  void check_peer(const char* name, int rank) const;

  std::shared_ptr<State> state_;
};

}  // namespace booster
