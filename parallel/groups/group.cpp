#include "parallel/groups/group.h"

#include "kernels/host/recording.h"
#include "parallel/backends/backend.h"
#include "parallel/groups/flight_recorder.h"
#include "parallel/groups/meet.h"
#include "parallel/groups/record_at_sigterm.h"
#include "parallel/operations/completion.h"
#include "parallel/operations/operation_tag.h"
#include "parallel/operations/work_queue.h"
#include "platform/forks.h"
#include "platform/trace.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>

namespace booster {

struct Group::State {
  explicit State(Membership members)
      : backend(make_backend(std::move(members))),
        name(std::make_shared<const std::string>(backend->members().name)) {
    if (const auto& meeting = backend->members().rendezvous)
      record_at_sigterm(meeting->rank(), meeting->size());
  }
  // Adds the operation to the process's record.
  uint64_t record(const char* operation, OperationTag tag, const Buffer* data) {
    return FlightRecorder::of_process().add({.sequence = ++issued,
                                             .group = name,
                                             .operation = operation,
                                             .tag = tag,
                                             .count = data ? data->count : 0,
                                             .dtype = data ? data->dtype : DType::f32});
  }
  // Ranks that still wait for this rank detect the end of its process; this rank waits for none.
  ~State() { backend->stop(); }

  std::shared_ptr<kernels::Event> mark(const Buffer* read, const Buffer* written) {
    const bool is_read_there = read && read->device.type != DeviceType::cpu;
    return backend->mark(is_read_there ? read->device : written ? written->device : Device{});
  }
  // The following run on the group's thread.
  struct Call {
    uint64_t number;  // in the process's record
    const char* operation;
    OperationTag tag;
  };
  std::shared_ptr<Completion> run(const Call& call, const std::function<void(Backend&)>& body,
                                  std::shared_ptr<kernels::Event> behind);
  bool look();
  void fail(uint64_t number, const char* operation, const char* reason);
  void tell_others(const std::string& reason) const;

  // An operation that a device has not completed yet.
  struct Running {
    uint64_t number;
    const char* operation;
    std::shared_ptr<Completion> work;
  };

  const int forks = fork_count();
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const std::string> name;
  uint64_t issued = 0;                         // operations so far
  std::string failure;                         // the first error; later operations repeat it
  std::map<std::vector<int>, int> subgroups;   // made so far, by members
  uint32_t numbers = 0;                        // given out by next_number()
  std::deque<Running> running;                 // in the order of issue
  WorkQueue queue{[this] { return look(); }};  // ends before the backend does
};

namespace {

Membership all_of(std::shared_ptr<Rendezvous> rendezvous) {
  check(rendezvous != nullptr, "Group: the rendezvous is null");
  Membership members{.name = "world",
                     .ranks = std::vector<int>(rendezvous->size()),
                     .rank = rendezvous->rank(),
                     .rendezvous = rendezvous};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  return members;
}

Membership all_at(const std::string& place, int rank, int size) {
  check(size >= 1 && rank >= 0 && rank < size,
        "Group: rank out of range; got rank {}, size {}, want 0 <= rank < size", rank, size);
  return size == 1 ? Membership{} : all_of(meet(place, rank, size));
}

std::string list_of(const std::vector<int>& ranks, const char* separator) {
  std::string list;
  for (int rank : ranks) list += fmt::format("{}{}", list.empty() ? "" : separator, rank);
  return list;
}

std::string name_of(Device device) {
  return device.type == DeviceType::cpu ? "the CPU" : fmt::format("cuda:{}", device.index);
}

void check_alike(const char* name, const Buffer& out, const Buffer& in) {
  check(out.dtype == in.dtype, "{}: output and input differ in dtype; got {} and {}", name,
        name_of(out.dtype), name_of(in.dtype));
  check(out.device == in.device, "{}: output and input differ in device; got {} and {}", name,
        name_of(out.device), name_of(in.device));
}

}  // namespace

Group::Group() : Group(Membership{}) {}
Group::Group(const std::string& place, int rank, int size) : Group(all_at(place, rank, size)) {}
Group::Group(std::shared_ptr<Rendezvous> rendezvous) : Group(all_of(std::move(rendezvous))) {}
Group::Group(Membership members) : state_(make_shared_here<State>(std::move(members))) {}

int Group::rank() const { return state_->backend->members().rank; }
int Group::size() const { return state_->backend->members().size(); }
const std::vector<int>& Group::world_ranks() const { return state_->backend->members().ranks; }
std::string Group::backend() const { return state_->backend->name(); }

namespace {

// The name is also a file name, whose length is limited.
std::string shortened(const std::string& name) {
  if (name.size() <= 100) return name;
  return fmt::format("{}..{:016x}", name.substr(0, 60), std::hash<std::string>()(name));
}

}  // namespace

Group Group::subgroup(const std::vector<int>& ranks) const {
  const Membership& parent = state_->backend->members();
  Membership members{.name = "", .ranks = {}, .rank = -1, .rendezvous = parent.rendezvous};
  for (size_t i = 0; i < ranks.size(); ++i) {
    check_peer("subgroup", ranks[i]);
    check(std::count(ranks.begin(), ranks.end(), ranks[i]) == 1,
          "subgroup: rank {} occurs twice; want each rank once", ranks[i]);
    if (ranks[i] == rank()) members.rank = static_cast<int>(i);
    members.ranks.push_back(parent.ranks[ranks[i]]);
  }
  check(members.rank >= 0,
        "subgroup: the members do not include this rank; got {1}, want {0} among them", rank(),
        list_of(ranks, ", "));
  members.name = shortened(fmt::format("{}.{}-{}", parent.name, list_of(members.ranks, "_"),
                                       state_->subgroups[members.ranks]++));
  return Group(std::move(members));
}

uint32_t Group::next_number() const { return state_->numbers++; }

void Group::name_places(const std::vector<std::string>& places) const {
  check(static_cast<int>(places.size()) == size(),
        "name_places: wrong number of places; got {1}, want {0}, one for each rank", size(),
        places.size());
  const Membership& members = state_->backend->members();
  if (!members.rendezvous) return;
  for (int rank = 0; rank < size(); ++rank)
    members.rendezvous->set_place(members.ranks[rank], places[rank]);
}

// Records the group's first error with the operation's name, and reports it to the others.
void Group::State::fail(uint64_t number, const char* operation, const char* reason) {
  auto& recorder = FlightRecorder::of_process();
  recorder.note(number, FlightState::failed);
  if (!failure.empty()) return;
  failure = fmt::format("{}: {}", operation, reason);
  if (const auto& meeting = backend->members().rendezvous)
    recorder.write_once(meeting->rank(), meeting->size());
  tell_others(reason);
}

void Group::State::tell_others(const std::string& reason) const {
  if (const auto& meeting = backend->members().rendezvous)
    meeting->report_failure(meeting->describe(meeting->rank()) + " gave up: " + reason);
}

void Group::give_up(const std::string& reason) const { state_->tell_others(reason); }

std::shared_ptr<Completion> Group::State::run(const Call& call,
                                              const std::function<void(Backend&)>& body,
                                              std::shared_ptr<kernels::Event> behind) {
  const auto& [number, operation, tag] = call;
  if (!failure.empty()) throw Error(failure, ErrorKind::failed);
  auto& recorder = FlightRecorder::of_process();
  recorder.note(number, FlightState::running);
  const kernels::TraceScope span(operation, kernels::SpanKind::collective);
  backend->begin(operation, tag, std::move(behind));
  try {
    body(*backend);
  } catch (const std::exception& error) {
    fail(number, operation, error.what());
    throw Error(failure, ErrorKind::failed);
  }
  auto work = backend->take_running();
  if (work)
    running.push_back({number, operation, work});
  else
    recorder.note(number, FlightState::done);
  return work;
}

// Returns whether devices still have operations to complete.
bool Group::State::look() {
  if (running.empty()) return false;
  try {
    backend->watch();
    for (; !running.empty() && running.front().work->is_done(); running.pop_front())
      FlightRecorder::of_process().note(running.front().number, FlightState::done);
  } catch (const std::exception& error) {
    for (const Running& one : running) fail(one.number, one.operation, error.what());
    running.clear();
  }
  return !running.empty();
}

// Issues the operation to the group's thread.
template <class Operation>
Work Group::issue(const char* name, OperationTag tag, Memory memory, Operation&& operation) const {
  kernels::refuse_to_record(name, "because the ranks would not meet there in a replay",
                            "the exchange after replay()");
  if (memory.written) memory.written->note_change();
  State* state = &state_.in(name);  // lives at least as long as its queue
  const bool alone = size() == 1;
  check(alone || state->forks == fork_count(),
        "{}: is called in a child of fork, which is no rank; want it in the process that joined "
        "the group",
        name);
  const uint64_t number =
      alone ? 0 : state->record(name, tag, memory.read ? memory.read : memory.written);
  auto run = [state, call = State::Call{number, name, tag},
              operation = std::forward<Operation>(operation),
              behind = alone ? nullptr : state->mark(memory.read, memory.written)] {
    return state->run(call, operation, behind);
  };
  if (!alone) return state->queue.add(std::move(run));
  run();
  return {};
}

void Group::check_peer(const char* name, int rank) const {
  check(rank >= 0 && rank < size(), "{}: no such rank in the group; got {}, want 0 to {}", name,
        rank, size() - 1);
}

Work Group::all_reduce_async(const Buffer& data, CollectiveOp reduction) const {
  return all_reduce_async(data, reduction, OperationTag());
}

Work Group::all_reduce_async(const Buffer& data, CollectiveOp reduction, OperationTag tag) const {
  check_reduction(reduction, data.dtype);
  return issue("all_reduce", tag, {.written = &data},
               [=](Backend& backend) { backend.all_reduce(data, reduction); });
}

Work Group::broadcast_async(const Buffer& data, int root) const {
  check_peer("broadcast", root);
  const Memory memory = root == rank() ? Memory{.read = &data} : Memory{.written = &data};
  return issue("broadcast", {}, memory, [=](Backend& backend) { backend.broadcast(data, root); });
}

Work Group::all_gather_async(const Buffer& out, const Buffer& in) const {
  return all_gather_async(out, in, OperationTag());
}

Work Group::all_gather_async(const Buffer& out, const Buffer& in, OperationTag tag) const {
  check_alike("all_gather", out, in);
  check(out.count == in.count * size(), "all_gather: the output has {} elements; want {} x {}",
        out.count, size(), in.count);
  return issue("all_gather", tag, {.read = &in, .written = &out},
               [=](Backend& backend) { backend.all_gather(out, in); });
}

Work Group::reduce_scatter_async(const Buffer& out, const Buffer& in,
                                 CollectiveOp reduction) const {
  return reduce_scatter_async(out, in, reduction, OperationTag());
}

Work Group::reduce_scatter_async(const Buffer& out, const Buffer& in, CollectiveOp reduction,
                                 OperationTag tag) const {
  check_reduction(reduction, in.dtype);
  check_alike("reduce_scatter", out, in);
  check(in.count == out.count * size(), "reduce_scatter: the input has {} elements; want {} x {}",
        in.count, size(), out.count);
  return issue("reduce_scatter", tag, {.read = &in, .written = &out},
               [=](Backend& backend) { backend.reduce_scatter(out, in, reduction); });
}

Work Group::all_to_all_async(const Buffer& out, const Buffer& in) const {
  check_alike("all_to_all", out, in);
  check(in.count == out.count && in.count % size() == 0,
        "all_to_all: want the same count in and out, a multiple of {} ranks; got {} in, {} out",
        size(), in.count, out.count);
  check(out.data != in.data || in.count == 0,
        "all_to_all: input and output share memory; want separate tensors");
  return issue("all_to_all", {}, {.read = &in, .written = &out},
               [=](Backend& backend) { backend.all_to_all(out, in); });
}

Work Group::send_async(const Buffer& data, int to) const {
  check_peer("send", to);
  check(to != rank(), "send: rank {} sends to itself", to);
  return issue("send", {}, {.read = &data}, [=](Backend& backend) { backend.send(data, to); });
}

Work Group::receive_async(const Buffer& data, int from) const {
  check_peer("receive", from);
  check(from != rank(), "receive: rank {} receives from itself", from);
  return issue("receive", {}, {.written = &data},
               [=](Backend& backend) { backend.receive(data, from); });
}

Work Group::send_receive_async(const Buffer& out, int to, const Buffer& in, int from) const {
  check_peer("send_receive", to);
  check_peer("send_receive", from);
  check(to != rank() && from != rank(), "send_receive: rank {} exchanges with itself", rank());
  return issue("send_receive", {}, {.read = &out, .written = &in},
               [=](Backend& backend) { backend.send_receive(out, to, in, from); });
}

Work Group::barrier_async() const {
  return issue("barrier", {}, {}, [](Backend& backend) { backend.barrier(); });
}

}  // namespace booster
