#include "parallel/groups/group.h"

#include "kernels/system/trace.h"
#include "parallel/groups/backend.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace booster {

struct Group::State {
  explicit State(Membership members) : backend(make_backend(std::move(members))) {}
  // Whoever still waits for this rank sees its process end; this rank does not wait for anybody.
  ~State() { backend->stop(); }

  std::unique_ptr<Backend> backend;
  std::string failure;                        // the first error; later operations repeat it
  std::map<std::vector<int>, int> subgroups;  // made so far, by members
  WorkQueue queue;                            // ends before the backend does
};

namespace {

Membership whole_world(const std::string& folder, int rank, int size) {
  check(size >= 1 && rank >= 0 && rank < size, "Group: want 0 <= rank < size; got rank {}, size {}",
        rank, size);
  Membership members{
      .name = "world", .ranks = std::vector<int>(size), .rank = rank, .rendezvous = nullptr};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  if (size > 1) members.rendezvous = std::make_shared<Rendezvous>(folder, rank, size);
  return members;
}

std::string list_of(const std::vector<int>& ranks, const char* separator) {
  std::string list;
  for (int rank : ranks) list += fmt::format("{}{}", list.empty() ? "" : separator, rank);
  return list;
}

void check_same_dtype(const char* name, const Buffer& out, const Buffer& in) {
  check(out.dtype == in.dtype, "{}: output and input differ in dtype; got {} and {}", name,
        name_of(out.dtype), name_of(in.dtype));
}

}  // namespace

Group::Group() : Group(Membership{}) {}
Group::Group(const std::string& folder, int rank, int size)
    : Group(whole_world(folder, rank, size)) {}
Group::Group(Membership members) : state_(std::make_shared<State>(std::move(members))) {}

int Group::rank() const { return state_->backend->members().rank; }
int Group::size() const { return state_->backend->members().size(); }
const std::vector<int>& Group::world_ranks() const { return state_->backend->members().ranks; }
std::string Group::backend() const { return state_->backend->name(); }

Group Group::subgroup(const std::vector<int>& ranks) const {
  const Membership& parent = state_->backend->members();
  Membership members{.name = "", .ranks = {}, .rank = -1, .rendezvous = parent.rendezvous};
  for (size_t i = 0; i < ranks.size(); ++i) {
    check_peer("subgroup", ranks[i]);
    check(std::count(ranks.begin(), ranks.end(), ranks[i]) == 1, "subgroup: rank {} comes twice",
          ranks[i]);
    if (ranks[i] == rank()) members.rank = static_cast<int>(i);
    members.ranks.push_back(parent.ranks[ranks[i]]);
  }
  check(members.rank >= 0, "subgroup: this rank, {}, is not one of the members {}", rank(),
        list_of(ranks, ", "));
  members.name = fmt::format("{}.{}-{}", parent.name, list_of(members.ranks, "_"),
                             state_->subgroups[members.ranks]++);
  return Group(std::move(members));
}

// Runs the operation on the group's thread, adds its name to an error, and tells the others.
template <class Operation>
Work Group::issue(const char* name, Operation&& operation) const {
  State* state = state_.get();  // lives at least as long as its queue
  auto guarded = [state, name, operation = std::forward<Operation>(operation)] {
    if (!state->failure.empty()) throw Error(state->failure, ErrorKind::failed);
    const kernels::TraceScope span(name, kernels::SpanKind::collective);
    try {
      operation(*state->backend);
    } catch (const std::exception& error) {
      state->failure = fmt::format("{}: {}", name, error.what());
      if (const auto& meeting = state->backend->members().rendezvous)
        meeting->report_failure(meeting->describe(meeting->rank()) + " gave up: " + error.what());
      throw Error(state->failure, ErrorKind::failed);
    }
  };
  if (size() > 1) return state->queue.add(std::move(guarded));
  guarded();
  return {};
}

void Group::check_peer(const char* name, int rank) const {
  check(rank >= 0 && rank < size(), "{}: no such rank in the group; got {}, want 0 to {}", name,
        rank, size() - 1);
}

Work Group::all_reduce_async(const Buffer& data, CollectiveOp reduction) const {
  check_reduction(reduction, data.dtype);
  return issue("all_reduce", [=](Backend& backend) { backend.all_reduce(data, reduction); });
}

Work Group::broadcast_async(const Buffer& data, int root) const {
  check_peer("broadcast", root);
  return issue("broadcast", [=](Backend& backend) { backend.broadcast(data, root); });
}

Work Group::all_gather_async(const Buffer& out, const Buffer& in) const {
  check_same_dtype("all_gather", out, in);
  check(out.count == in.count * size(), "all_gather: the output has {} elements; want {} x {}",
        out.count, size(), in.count);
  return issue("all_gather", [=](Backend& backend) { backend.all_gather(out, in); });
}

Work Group::reduce_scatter_async(const Buffer& out, const Buffer& in,
                                 CollectiveOp reduction) const {
  check_reduction(reduction, in.dtype);
  check_same_dtype("reduce_scatter", out, in);
  check(in.count == out.count * size(), "reduce_scatter: the input has {} elements; want {} x {}",
        in.count, size(), out.count);
  return issue("reduce_scatter",
               [=](Backend& backend) { backend.reduce_scatter(out, in, reduction); });
}

Work Group::all_to_all_async(const Buffer& out, const Buffer& in) const {
  check_same_dtype("all_to_all", out, in);
  check(in.count == out.count && in.count % size() == 0,
        "all_to_all: want the same count in and out, a multiple of {} ranks; got {} in, {} out",
        size(), in.count, out.count);
  check(out.data != in.data || in.count == 0, "all_to_all: input and output share memory");
  return issue("all_to_all", [=](Backend& backend) { backend.all_to_all(out, in); });
}

Work Group::send_async(const Buffer& data, int to) const {
  check_peer("send", to);
  check(to != rank(), "send: rank {} sends to itself", to);
  return issue("send", [=](Backend& backend) { backend.send(data, to); });
}

Work Group::receive_async(const Buffer& data, int from) const {
  check_peer("receive", from);
  check(from != rank(), "receive: rank {} receives from itself", from);
  return issue("receive", [=](Backend& backend) { backend.receive(data, from); });
}

Work Group::send_receive_async(const Buffer& out, int to, const Buffer& in, int from) const {
  check_peer("send_receive", to);
  check_peer("send_receive", from);
  check(to != rank() && from != rank(), "send_receive: rank {} exchanges with itself", rank());
  return issue("send_receive", [=](Backend& backend) { backend.send_receive(out, to, in, from); });
}

Work Group::barrier_async() const {
  return issue("barrier", [](Backend& backend) { backend.barrier(); });
}

}  // namespace booster
