// Backend: the interface by which the ranks of a group exchange memory, and the knowledge of ranks
// that its implementations share. Implementations for host memory derive from HostBackend
// (host_backend.h); the others serve memory on devices on top of one.
//
// Calls come from one thread at a time and in the same order on all ranks; `stop` may come from any
// thread.
#pragma once

#include "parallel/operations/completion.h"
#include "parallel/operations/operation.h"
#include "parallel/operations/operation_tag.h"
#include "parallel/operations/reduction.h"
#include "parallel/operations/signature.h"
#include "parallel/rendezvous/membership.h"
#include "platform/error.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace booster {

namespace kernels {
class Event;
}

// Living ranks of the world did not arrive in time.
struct TimedOut : Error {
  TimedOut(const std::string& text, std::set<int> ranks)
      : Error(text, ErrorKind::failed), ranks(std::move(ranks)) {}
  std::set<int> ranks;
};
// Returns the error that names these ranks.
TimedOut timed_out(const Rendezvous& rendezvous, std::set<int> ranks);

class Backend {
 public:
  explicit Backend(Membership members);
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  // Makes calls that wait for other ranks throw soon; called when the group ends.
  virtual void stop() = 0;

  virtual void all_reduce(const Buffer& data, CollectiveOp reduction) = 0;
  virtual void broadcast(const Buffer& data, int root) = 0;
  virtual void all_gather(const Buffer& out, const Buffer& in) = 0;
  virtual void reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) = 0;
  virtual void all_to_all(const Buffer& out, const Buffer& in) = 0;
  virtual void send(const Buffer& data, int to) = 0;
  virtual void receive(const Buffer& data, int from) = 0;
  virtual void send_receive(const Buffer& out, int to, const Buffer& in, int from) = 0;
  virtual void barrier() = 0;

  // Returns the device work to wait for before an operation. The issuing thread calls it and passes
  // the result to begin(). Null if operations wait by themselves.
  virtual std::shared_ptr<kernels::Event> mark(Device) { return nullptr; }
  // Returns the part of the operation that a device still has to complete; null if it is complete.
  virtual std::shared_ptr<Completion> take_running() { return nullptr; }
  // Throws if that part has failed in the meantime, or takes too long. Call it regularly.
  virtual void watch() {}

  const Membership& members() const { return members_; }
  // Sets the name and purpose of the operation that the following calls make. Errors and reports
  // use them.
  virtual void begin(const char* operation, OperationTag tag = {},
                     std::shared_ptr<kernels::Event> = nullptr) {
    call_->operation = operation;
    call_->tag = tag;
  }

 protected:
  // The operation in progress. A backend shares it with all its parts.
  struct Call {
    const char* operation = "the start of the group";
    OperationTag tag = {};
    uint64_t sequence = 0;
    std::vector<int> participants = {};
  };
  Call& call() const { return *call_; }
  // Makes this backend part of `whole`: shares its call, and requires its members to live.
  void join(const Backend& whole);

  // Returns the problem of these ranks of the world, or "". Without ranks it checks all that must
  // live. A rank that has died or reported a failure is a problem, and ends the run for all ranks.
  std::string trouble_among(const std::vector<int>& ranks) const;
  // Throws an error if there is a problem with the operation's participants.
  void check_members() const;
  // Restricts the participants to these members, by rank in the group; none: all.
  void narrow_to(const std::vector<int>& participants);
  // Returns the participants' ranks in the world.
  const std::vector<int>& participants() const { return call_->participants; }
  // Makes this backend also require this rank of the world to live.
  void depend_on(int world_rank) { watched_.push_back(world_rank); }

 private:
  Membership members_;
  std::vector<int> watched_;  // ranks of the world
  std::shared_ptr<Call> call_ = std::make_shared<Call>();
};

// Makes the backend for these members: the one named by BOOSTER_BACKEND, else the fastest that
// works. All members must call it. Throws for an unknown name, or if a member does not arrive.
std::unique_ptr<Backend> make_backend(Membership members);
std::vector<std::string> backend_names();
// Returns the backend of a group of one rank.
std::unique_ptr<Backend> make_local(Membership members);

}  // namespace booster
