// Base of the backends for host memory. Such a backend must only move bytes between two ranks
// (`exchange`). This class builds every collective on that, for two or more ranks. A backend with
// faster ways to move data overrides `gather` and the like.
#pragma once

#include "parallel/backends/backend.h"
#include "parallel/rendezvous/slow_wait.h"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace booster {

struct Outgoing {
  int to;
  std::span<const std::byte> data;
};
struct Incoming {
  int from;
  std::span<std::byte> data;
};

inline constexpr int nobody = -1;

// A message to one rank, and a simultaneous message from one.
struct Messages {
  Buffer out = {};
  int to = nobody;
  Buffer in = {};
  int from = nobody;
};
// Returns the ranks of these messages.
inline std::vector<int> partners(const Messages& what) {
  std::vector<int> ranks;
  if (what.to != nobody) ranks.push_back(what.to);
  if (what.from != nobody) ranks.push_back(what.from);
  return ranks;
}
// Which of the two go directly from GPU to GPU.
struct Directly {
  bool out = false, in = false;
};

class HostBackend : public Backend {
 public:
  explicit HostBackend(Membership members);

  void all_reduce(const Buffer& data, CollectiveOp reduction) final;
  void broadcast(const Buffer& data, int root) final;
  void all_gather(const Buffer& out, const Buffer& in) final;
  void reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) final;
  void all_to_all(const Buffer& out, const Buffer& in) final;
  void send(const Buffer& data, int to) final;
  void receive(const Buffer& data, int from) final;
  void send_receive(const Buffer& out, int to, const Buffer& in, int from) final;
  void barrier() final;

  // Exchanges every rank's next operation, and whether the rank could do it directly. Returns
  // whether all could. Throws if the operations differ. For a backend that moves some memory itself
  // and leaves the rest to this one.
  bool agree(Signature own);
  // Returns the same between the two ranks of each message.
  Directly agree(const Messages& what, Directly possible);
  // Makes the following call skip its check, because agree() has already run.
  void skip_agreement() { has_agreed_ = true; }
  // Moves all messages at once. Their order is free, except that messages between two ranks keep
  // theirs. Returns when `outgoing` may be overwritten and `incoming` is filled. Throws if a rank
  // has died or does not arrive within group_timeout().
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;

  // Makes this backend, and its own parts, part of `whole`. Reports name operations of `whole`, and
  // all its members must be alive.
  virtual void serve(const Backend& whole) { join(whole); }

 protected:
  // Move data, once all ranks agree on the call. `all` has a place of own.size() bytes for each
  // rank; this rank's place keeps its content.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all);
  virtual void reduce_to_all(const Buffer& data, CollectiveOp reduction);
  // `in` has out.count elements for each rank.
  virtual void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction);
  virtual void spread(const Buffer& data, int root);

  // Sends all data to every rank and reduces there; fastest for small data.
  void reduce_whole(const Buffer& data, CollectiveOp reduction);

  // Returns the bytes to exchange and then reduce at a time. Small enough for the second-level
  // cache, large enough that ranks' waits for each other do not matter.
  virtual int64_t block_bytes() const { return 128 << 10; }

  // Returns the problem of an operation that waits for these members and has not moved data since
  // `since`, or "". A rank that has ended may have done its part. It counts only if no data moves
  // for a while and, between two ranks, only if one of their messages is outstanding.
  using Clock = std::chrono::steady_clock;
  std::string trouble_in_wait(std::span<const int> awaited, Clock::time_point since) const;
  // Throws TimedOut for members of the group that did not arrive in time; a member may be named
  // several times.
  [[noreturn]] void fail_timeout(std::span<const int> group_ranks) const;
  // Reports that this rank still waits for another.
  void still_waits(SlowWait& wait, int group_rank) const;

 private:
  // Runs agree(), unless the caller already has.
  void agree_once(const Signature& own);
  void point_to_point(const Messages& what);
  void swap(const Messages& with, std::span<const std::byte> outgoing,
            std::span<std::byte> incoming);
  // Exchanges outgoing_to(rank) and incoming_from(rank), spans or arrays of spans, with every other
  // rank.
  template <class OutgoingTo, class IncomingFrom>
  void exchange_with_all(OutgoingTo&& outgoing_to, IncomingFrom&& incoming_from);
  // Divides `data` into one part per rank, and reduces all ranks' copies of the own part into
  // `out`. With `share` all ranks get all parts, in-place; `out` is then the own part.
  void reduce_own_part(const Buffer& data, const Buffer& out, CollectiveOp reduction, bool share);

  int size() const { return members().size(); }

  bool check_, has_agreed_ = false;
  std::vector<std::byte> received_, scratch_;
};

// Makes `host` serve memory on any device, by copies.
std::unique_ptr<Backend> through_host(std::shared_ptr<HostBackend> host);
// Serves memory on any device: between GPUs by NCCL if each rank has its own GPU, else by copies.
// Throws if `is_wanted` and there is no NCCL.
std::unique_ptr<Backend> by_nccl(std::unique_ptr<HostBackend> host, bool is_wanted);

// One row each in backend_table.cpp, one file each. A maker returns null on all members if the
// machine cannot run the backend.
std::unique_ptr<HostBackend> make_shared_memory(Membership members);
std::unique_ptr<HostBackend> make_shared_memory_and_gloo(Membership members);
std::unique_ptr<HostBackend> make_gloo(Membership members);
std::unique_ptr<HostBackend> make_mpi(Membership members);

}  // namespace booster
