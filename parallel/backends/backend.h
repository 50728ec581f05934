// Base of the backends: how the ranks of one group exchange memory.
//
// A backend must only move bytes between two ranks (`exchange`). This class builds every collective
// on that, for two or more ranks, in host memory. A backend with faster ways to move data overrides
// `gather` and the like; a backend for other memory overrides the collectives themselves. Calls
// come from one thread at a time and in the same order on all ranks; `stop` may come from any
// thread.
#pragma once

#include "parallel/operations/operation.h"
#include "parallel/operations/reduction.h"
#include "parallel/operations/signature.h"
#include "parallel/rendezvous/membership.h"
#include "parallel/rendezvous/slow_wait.h"
#include "platform/error.h"

#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace booster {

namespace kernels {
class Moment;
}

struct Outgoing {
  int to;
  std::span<const std::byte> data;
};
struct Incoming {
  int from;
  std::span<std::byte> data;
};

inline constexpr int nobody = -1;

// Living ranks of the world did not arrive in time.
struct TimedOut : Error {
  TimedOut(const std::string& text, std::set<int> ranks)
      : Error(text, ErrorKind::failed), ranks(std::move(ranks)) {}
  std::set<int> ranks;
};
// Returns the error that names these ranks.
TimedOut timed_out(const Rendezvous& rendezvous, std::set<int> ranks);

// A message to one rank, and a simultaneous message from one.
struct Messages {
  Buffer out = {};
  int to = nobody;
  Buffer in = {};
  int from = nobody;
};
// The ranks of these messages.
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

class Backend {
 public:
  explicit Backend(Membership members);
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  // Makes calls that wait for other ranks throw soon; called when the group ends.
  virtual void stop() = 0;

  virtual void all_reduce(const Buffer& data, CollectiveOp reduction);
  virtual void broadcast(const Buffer& data, int root);
  virtual void all_gather(const Buffer& out, const Buffer& in);
  virtual void reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction);
  virtual void all_to_all(const Buffer& out, const Buffer& in);
  virtual void send(const Buffer& data, int to);
  virtual void receive(const Buffer& data, int from);
  virtual void send_receive(const Buffer& out, int to, const Buffer& in, int from);
  virtual void barrier();

  // Returns the device work to wait for before an operation. The issuing thread calls it and passes
  // the result to begin(). Null if operations wait by themselves.
  virtual std::shared_ptr<kernels::Moment> mark(Device) { return nullptr; }
  // Returns the part of the operation that a device still has to complete; null if it is complete.
  virtual std::shared_ptr<Completion> take_running() { return nullptr; }
  // Throws if that part has failed in the meantime, or takes too long. Call it regularly.
  virtual void watch() {}

  // For a backend that moves some memory itself and leaves the rest to this one. All ranks exchange
  // what they do next, and whether they could do it directly. Returns whether all could. Throws if
  // they do not do the same.
  bool agree(Signature own);
  // The same between the two ranks of each message.
  Directly agree(const Messages& what, Directly possible);
  // Makes the following call skip its check, because agree() has already run.
  void skip_agreement() { has_agreed_ = true; }
  // Moves all messages at once. Their order is free, except that messages between two ranks keep
  // theirs. Returns when `outgoing` may be overwritten and `incoming` is filled. Throws if a rank
  // has died or does not arrive within group_timeout().
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;

  const Membership& members() const { return members_; }
  // Sets the operation of the following calls, as errors and reports name it, and its purpose.
  virtual void begin(const char* operation, OperationTag tag = {},
                     std::shared_ptr<kernels::Moment> = nullptr) {
    call_->operation = operation;
    call_->tag = tag;
  }
  // Makes this backend, and its own parts, part of `whole`. Reports name operations of `whole`, and
  // all its members must be alive.
  virtual void serve(const Backend& whole);

 protected:
  // How data moves, once all ranks agree on the call. `all` has a place for each rank's bytes, as
  // many as `own`; the own place keeps its content.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all);
  virtual void reduce_to_all(const Buffer& data, CollectiveOp reduction);
  // `in` has as many elements for each rank as `out`.
  virtual void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction);
  virtual void spread(const Buffer& data, int root);

  // Sends every rank all data and reduces it there: the fastest for small data.
  void reduce_whole(const Buffer& data, CollectiveOp reduction);

  // Bytes to exchange and then reduce at a time. Small enough for the second-level cache, large
  // enough that ranks' waits for each other do not matter.
  virtual int64_t block_bytes() const { return 128 << 10; }

  // Returns what is wrong with these ranks of the world (none: all that must live); "" for nothing.
  // A rank that has died or reported a failure is wrong, and ends the run for all ranks.
  std::string trouble_among(const std::vector<int>& ranks) const;
  // The same for the operation's participants.
  std::string trouble() const { return trouble_among(participants()); }
  // Throws an error with trouble()'s text, if there is any.
  void check_members() const;
  // The same for an operation that waits for these members and has not moved data since `since`. A
  // rank that has ended may have done its part. So it counts only if nothing moves for a while and,
  // between two ranks, only if one of their messages is outstanding.
  using Clock = std::chrono::steady_clock;
  std::string trouble_in_wait(std::span<const int> awaited, Clock::time_point since) const;
  // Restricts the participants to these members, by rank in the group; none: all.
  void narrow_to(const std::vector<int>& participants);
  // The participants' ranks in the world.
  const std::vector<int>& participants() const { return call_->participants; }
  // Makes this backend also require this rank of the world to live.
  void depend_on(int world_rank) { watched_.push_back(world_rank); }
  // Throws TimedOut for members of the group that did not arrive in time; a member may be named
  // several times.
  [[noreturn]] void fail_timeout(std::span<const int> group_ranks) const;
  // Reports that this rank still waits for another.
  void still_waits(SlowWait& wait, int group_rank) const;

 private:
  // Shared by this backend and all its parts.
  struct Call {
    const char* operation = "the start of the group";
    OperationTag tag = {};
    uint64_t sequence = 0;
    std::vector<int> participants = {};
  };
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

  int size() const { return members_.size(); }

  Membership members_;
  std::vector<int> watched_;  // ranks of the world
  bool check_, has_agreed_ = false;
  std::shared_ptr<Call> call_ = std::make_shared<Call>();
  std::vector<std::byte> received_, scratch_;
};

// Makes the backend for these members: the one named by BOOSTER_BACKEND, else the fastest that
// works. All members must call it. Throws for an unknown name, or if a member does not arrive.
std::unique_ptr<Backend> make_backend(Membership members);
std::vector<std::string> backend_names();
// Makes `host`, which serves only host memory, serve memory on any device, by copies.
std::unique_ptr<Backend> through_host(std::shared_ptr<Backend> host);
// Serves memory on any device: between GPUs by NCCL if each rank has its own GPU, else by copies.
// Throws if `is_wanted` and there is no NCCL.
std::unique_ptr<Backend> by_nccl(std::unique_ptr<Backend> host, bool is_wanted);

// One row each in backend_table.cpp, one file each. A maker returns null if the machine lacks what
// the backend needs, and then it does so on every member.
std::unique_ptr<Backend> make_local(Membership members);
std::unique_ptr<Backend> make_shared_memory(Membership members);
std::unique_ptr<Backend> make_shared_memory_and_gloo(Membership members);
std::unique_ptr<Backend> make_gloo(Membership members);
std::unique_ptr<Backend> make_mpi(Membership members);

}  // namespace booster
