// Base of the backends: how the ranks of one group exchange memory.
//
// A backend must only move bytes between two ranks (`exchange`); every collective is built on that
// here, once, for two ranks or more in host memory. A backend that knows better ways for the data
// overrides those (`gather`, ...), and one that serves other memory the collectives themselves.
// Calls come from one thread at a time and in the same order on all ranks; `stop` may come from any
// thread.
#pragma once

#include "parallel/operations/buffer.h"
#include "parallel/operations/reduction.h"
#include "parallel/operations/signature.h"
#include "parallel/operations/work.h"
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

// Ranks of the world that live did not come in time.
struct TimedOut : Error {
  TimedOut(const std::string& text, std::set<int> ranks)
      : Error(text, ErrorKind::failed), ranks(std::move(ranks)) {}
  std::set<int> ranks;
};
// The error that names them.
TimedOut timed_out(const Rendezvous& rendezvous, std::set<int> ranks);

// What goes to a rank, and what comes from one at the same time.
struct Messages {
  Buffer out = {};
  int to = nobody;
  Buffer in = {};
  int from = nobody;
};
// Those two ranks.
inline std::vector<int> partners(const Messages& what) {
  std::vector<int> ranks;
  if (what.to != nobody) ranks.push_back(what.to);
  if (what.from != nobody) ranks.push_back(what.from);
  return ranks;
}
// Which of the two go from GPU to GPU.
struct Directly {
  bool out = false, in = false;
};

class Backend {
 public:
  explicit Backend(Membership members);
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  // Makes a call that waits for other ranks throw soon; called when the group ends.
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

  // What the device of an operation's memory has to do first: called by the thread that issues the
  // operation, for begin() to be told. Null where operations see to that themselves.
  virtual std::shared_ptr<kernels::Moment> mark(Device) { return nullptr; }
  // What the operation has left to a device to complete; null if it is complete.
  virtual std::shared_ptr<Completion> take_running() { return nullptr; }
  // Throws if that has gone wrong in the meantime, or takes too long. To be called now and then.
  virtual void watch() {}

  // For a backend that moves some memory in ways of its own and leaves the rest to this one. All
  // ranks tell each other what they do next, and whether they could do it directly: whether all
  // could. Error if they do not do the same.
  bool agree(Signature own);
  // The same between the ranks that messages go to and come from.
  Directly agree(const Messages& what, Directly possible);
  // The call that follows compares nothing: agree() has come before.
  void skip_agreement() { has_agreed_ = true; }
  // Moves all of them at once, in any order except that messages between two ranks keep theirs;
  // returns when `outgoing` may be overwritten and `incoming` is filled. Throws when a rank has
  // died or does not come within group_timeout().
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;

  const Membership& members() const { return members_; }
  // The operation that the calls from now on belong to, as errors and reports name it, and what it
  // is for.
  virtual void begin(const char* operation, OperationTag tag = {},
                     std::shared_ptr<kernels::Moment> = nullptr) {
    call_->operation = operation;
    call_->tag = tag;
  }
  // From now on this is a part of `whole`: whose operations are the ones that reports name, and
  // whose members must all live. So do the parts of this one.
  virtual void serve(const Backend& whole);

 protected:
  // How data moves, once all ranks have said the same. `all` has a place for the bytes of each
  // rank, as many as `own`; what lies in the own place stays.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all);
  virtual void reduce_to_all(const Buffer& data, CollectiveOp reduction);
  // `in` has as many elements for each rank as `out`.
  virtual void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction);
  virtual void spread(const Buffer& data, int root);

  // Every rank gets the data of all, and reduces it: the fastest for small data.
  void reduce_whole(const Buffer& data, CollectiveOp reduction);

  // Bytes that are exchanged and then reduced at a time; small enough for the second-level cache,
  // large enough that waiting for each other does not count.
  virtual int64_t block_bytes() const { return 128 << 10; }

  // What is wrong with these ranks of the world (none: with all that must live), "" for nothing:
  // one has died, or has reported a failure. The run is over then for all ranks.
  std::string trouble_among(const std::vector<int>& ranks) const;
  // The same for those that take part in the operation.
  std::string trouble() const { return trouble_among(participants()); }
  // Throws it.
  void check_members() const;
  // The same for an operation that waits for these members, since nothing has moved.
  // A rank that has ended has perhaps done its part: it counts only if nothing moves for a while,
  // and where two ranks exchange only while a message of theirs is under way.
  using Clock = std::chrono::steady_clock;
  std::string trouble_in_wait(std::span<const int> awaited, Clock::time_point since) const;
  // From now on only these members take part, by their rank in the group; none: all do.
  void narrow_to(const std::vector<int>& participants);
  // Their ranks in the world.
  const std::vector<int>& participants() const { return call_->participants; }
  // This rank of the world must live too.
  void depend_on(int world_rank) { watched_.push_back(world_rank); }
  // These members of the group, each of which may be named several times, did not come in time.
  // Throws TimedOut.
  [[noreturn]] void fail_timeout(std::span<const int> group_ranks) const;
  // Tells that this rank still waits for another.
  void still_waits(SlowWait& wait, int group_rank) const;

 private:
  // Of this backend and all parts of it.
  struct Call {
    const char* operation = "the start of the group";
    OperationTag tag = {};
    uint64_t sequence = 0;
    std::vector<int> participants = {};
  };
  // Unless agree() has come before.
  void agree_once(const Signature& own);
  void point_to_point(const Messages& what);
  void swap(const Messages& with, std::span<const std::byte> outgoing,
            std::span<std::byte> incoming);
  // Exchanges outgoing_to(rank) and incoming_from(rank), spans or arrays of spans, with every other
  // rank.
  template <class OutgoingTo, class IncomingFrom>
  void exchange_with_all(OutgoingTo&& outgoing_to, IncomingFrom&& incoming_from);
  // `data` is cut into one part per rank; the own part of all ranks is reduced into `out`. With
  // `share` all ranks get all parts, in place; `out` is the own one then.
  void reduce_own_part(const Buffer& data, const Buffer& out, CollectiveOp reduction, bool share);

  int size() const { return members_.size(); }

  Membership members_;
  std::vector<int> watched_;  // ranks of the world
  bool check_, has_agreed_ = false;
  std::shared_ptr<Call> call_ = std::make_shared<Call>();
  std::vector<std::byte> received_, scratch_;
};

// The backend for these members: the one that BOOSTER_BACKEND names, else the fastest that works.
// All members must call it. Error for an unknown name, or when one member does not come.
std::unique_ptr<Backend> make_backend(Membership members);
std::vector<std::string> backend_names();
// The same for memory on any device, by copies: `host` serves only host memory.
std::unique_ptr<Backend> through_host(std::shared_ptr<Backend> host);
// The same for memory on any device: between GPUs by NCCL where each rank has one of its own, else
// by copies. Error if `is_wanted` and there is no NCCL.
std::unique_ptr<Backend> by_nccl(std::unique_ptr<Backend> host, bool is_wanted);

// One row each in backend_table.cpp, one file each. A maker returns null if the machine lacks what
// the backend needs, and then does so on every member.
std::unique_ptr<Backend> make_local(Membership members);
std::unique_ptr<Backend> make_shared_memory(Membership members);
std::unique_ptr<Backend> make_shared_memory_and_gloo(Membership members);
std::unique_ptr<Backend> make_gloo(Membership members);
std::unique_ptr<Backend> make_mpi(Membership members);

}  // namespace booster
