// Base of the backends: how the ranks of one group exchange memory.
//
// A backend must only move bytes between two ranks (`exchange`); every collective is built on that
// here, once, for two ranks or more in host memory. A backend that knows better ways for the data
// overrides those (`gather`, ...), and one that serves other memory the collectives themselves.
// Calls come from one thread at a time and in the same order on all ranks; `stop` may come from any
// thread.
#pragma once

#include "parallel/groups/buffer.h"
#include "parallel/groups/membership.h"
#include "parallel/groups/reduction.h"
#include "parallel/groups/signature.h"
#include "parallel/rendezvous/slow_wait.h"

#include <memory>
#include <span>
#include <string>
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

  // Moves all of them at once, in any order except that messages between two ranks keep theirs;
  // returns when `outgoing` may be overwritten and `incoming` is filled. Throws when a rank has
  // died or does not come within group_timeout().
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;

  const Membership& members() const { return members_; }
  // The operation that the calls from now on belong to, as errors and reports name it.
  void begin(const char* operation) { call_->operation = operation; }
  // From now on this is a part of `whole`: whose operations are the ones that reports name, and
  // whose members must all live.
  void serve(const Backend& whole);

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

  // Throws if one of the members has died or has reported a failure.
  void check_members() const;
  // This rank of the world must live too.
  void watch(int world_rank) { watched_.push_back(world_rank); }
  [[noreturn]] void fail_timeout(int group_rank) const;
  // Tells that this rank still waits for another.
  void still_waits(SlowWait& wait, int group_rank) const;

 private:
  struct Call {
    const char* operation = "the start of the group";
    uint64_t sequence = 0;
  };
  // The next collective; ranks that do not say the same about it all throw.
  void agree(Signature own);
  void check_agreement(const Signature& own);
  void point_to_point(const Buffer& out, int to, const Buffer& in, int from);
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
  bool check_;
  std::shared_ptr<Call> call_ = std::make_shared<Call>();
  std::vector<std::byte> received_, scratch_;
};

// The backend for these members: the one that BOOSTER_BACKEND names, else the fastest that works.
// All members must call it. Error for an unknown name, or when one member does not come.
std::unique_ptr<Backend> make_backend(Membership members);
std::vector<std::string> backend_names();
// The same for memory on any device, by copies: `host` serves only host memory.
std::unique_ptr<Backend> through_host(std::unique_ptr<Backend> host);

// One row each in backend_table.cpp, one file each. A maker returns null if the machine lacks what
// the backend needs, and then does so on every member.
std::unique_ptr<Backend> make_local(Membership members);
std::unique_ptr<Backend> make_shared_memory(Membership members);
std::unique_ptr<Backend> make_shared_memory_and_gloo(Membership members);
std::unique_ptr<Backend> make_gloo(Membership members);
std::unique_ptr<Backend> make_mpi(Membership members);

}  // namespace booster
