// The backend of ranks on several machines, some with several ranks: shared memory within a machine
// and Gloo between machines, at the same time. Data that all ranks of a machine need is sent to it
// once.
#include "parallel/backends/host_backend.h"
#include "parallel/backends/machine_ring.h"
#include "parallel/operations/parts.h"
#include "parallel/operations/work_queue.h"
#include "parallel/rendezvous/machines.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <semaphore>
#include <set>

namespace booster {

namespace {

// Up to this size times the number of other machines, one message to each machine is faster than a
// ring, which costs several hops (figures in docs/machines.md).
constexpr int64_t small_bytes = 16 << 10;
// Maximum difference between the timeouts of the network and of shared memory.
constexpr auto both_times = std::chrono::milliseconds(500);

class SharedMemoryAndGloo final : public HostBackend {
 public:
  // `local` connects the members on this machine; null if there is only one.
  SharedMemoryAndGloo(std::unique_ptr<HostBackend> local, std::unique_ptr<HostBackend> remote,
                      const Machines& machines);
  const char* name() const override { return "shm+gloo"; }
  void stop() override {
    if (local_) local_->stop();
    remote_->stop();
  }
  void serve(const Backend& whole) override {
    HostBackend::serve(whole);
    if (local_) local_->serve(whole);
    remote_->serve(whole);
  }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override;

 protected:
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override;
  void reduce_to_all(const Buffer& data, CollectiveOp reduction) override;
  void reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction) override;
  void spread(const Buffer& data, int root) override;

 private:
  struct Load {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    bool empty() const { return outgoing.empty() && incoming.empty(); }
  };
  // A broadcast from machine to machine, starting at the root's machine.
  struct Chain {
    int root;
    bool is_star;  // true: the root sends to all machines itself
  };
  void exchange(const Load& messages) { exchange(messages.outgoing, messages.incoming); }
  void exchange_both(const Load& near, const Load& far);

  int me() const { return members().rank; }
  int here() const { return machines_.of(me()); }
  bool is_small(int64_t bytes) const { return bytes <= small_bytes * (machines_.count() - 1); }
  bool is_near(int rank) const { return machines_.of(rank) == here(); }
  // Returns the rank on `machine` that receives, for all ranks there, the data of `rank` on another
  // machine.
  int taker(int machine, int rank) const {
    return machines_.owner(machine, machines_.place_of(rank));
  }
  double sent_directly() const;
  // Returns the rank that handles a lane of a chain on a machine; on the root's machine the root
  // handles all.
  int handler(const Chain& chain, int machine, int lane) const {
    return machine == machines_.of(chain.root) ? chain.root : machines_.owner(machine, lane);
  }
  int position(const Chain& chain, int machine) const;
  // Passes on `bytes` of each lane, `length` at a time.
  void pass_on(const Chain& chain, const Buffer& bytes, int64_t length, int64_t step,
               Load& messages);

  Machines machines_;
  std::unique_ptr<HostBackend> local_, remote_;
  MachineRing ring_;
  WorkQueue queue_;  // ends before the backends do
};

SharedMemoryAndGloo::SharedMemoryAndGloo(std::unique_ptr<HostBackend> local,
                                         std::unique_ptr<HostBackend> remote,
                                         const Machines& machines)
    : HostBackend(remote->members()),
      machines_(machines),
      local_(std::move(local)),
      remote_(std::move(remote)),
      ring_(machines_, me(),
            [this](std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
              exchange(outgoing, incoming);
            }) {
  if (local_) local_->serve(*this);
  remote_->serve(*this);
}

void SharedMemoryAndGloo::exchange(std::span<const Outgoing> outgoing,
                                   std::span<const Incoming> incoming) {
  Load near, far;
  for (const auto& [to, data] : outgoing)
    if (data.empty())
      continue;
    else if (is_near(to))
      near.outgoing.push_back({machines_.place_of(to), data});
    else
      far.outgoing.push_back({to, data});
  for (const auto& [from, data] : incoming)
    if (data.empty())
      continue;
    else if (is_near(from))
      near.incoming.push_back({machines_.place_of(from), data});
    else
      far.incoming.push_back({from, data});
  if (far.empty() && near.empty()) return;
  if (far.empty()) return local_->exchange(near.outgoing, near.incoming);
  if (near.empty()) return remote_->exchange(far.outgoing, far.incoming);
  exchange_both(near, far);
}

// Runs the two exchanges concurrently, since a rank on this machine may wait for a rank elsewhere
// that waits for this one. The first error ends the other exchange. If one exchange times out, the
// other soon does too, and both may name missing ranks.
void SharedMemoryAndGloo::exchange_both(const Load& near, const Load& far) {
  std::atomic<bool> has_failed = false;
  std::exception_ptr error;
  std::set<int> missing[2];
  std::counting_semaphore<2> over[2] = {std::counting_semaphore<2>(0),
                                        std::counting_semaphore<2>(0)};
  const auto attempt = [&](int which, HostBackend& backend, const Load& messages,
                           HostBackend& other) {
    try {
      try {
        backend.exchange(messages.outgoing, messages.incoming);
      } catch (const TimedOut& late) {
        missing[which] = late.ranks;
        over[which].release();
        over[1 - which].try_acquire_for(both_times);
        throw;
      }
    } catch (...) {
      if (!has_failed.exchange(true)) error = std::current_exception();
      other.stop();
    }
    over[which].release();
  };
  const Work meanwhile = queue_.add([&] {
    attempt(0, *remote_, far, *local_);
    return nullptr;
  });
  attempt(1, *local_, near, *remote_);
  meanwhile.wait();
  try {
    if (error) std::rethrow_exception(error);
  } catch (const TimedOut&) {
    missing[0].merge(missing[1]);
    throw timed_out(*members().rendezvous, missing[0]);
  }
}

// Sends each rank's bytes to one rank of each other machine, which distributes each piece there
// while it receives the next.
void SharedMemoryAndGloo::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  const auto bytes = static_cast<int64_t>(own.size()), length = piece_of(bytes);
  const int64_t pieces = (bytes + length - 1) / length;
  const auto piece = [&](auto memory, int rank, int64_t index) {
    const int64_t begin = index * length;
    if (index < 0 || begin >= bytes) return memory.first(0);
    return memory.subspan(static_cast<size_t>(rank * bytes + begin),
                          static_cast<size_t>(std::min(length, bytes - begin)));
  };
  const auto place = [&](int rank, int64_t index) { return piece(all, rank, index); };
  for (int64_t step = 0; step <= pieces && pieces > 0; ++step) {
    Load messages;
    for (int rank = 0; rank < machines_.members(); ++rank) {
      if (rank == me()) continue;
      if (is_near(rank) || taker(machines_.of(rank), me()) == rank)
        messages.outgoing.push_back({rank, piece(own, 0, step)});
      if (is_near(rank) || taker(here(), rank) == me())
        messages.incoming.push_back({rank, place(rank, step)});
    }
    for (int rank = 0; rank < machines_.members(); ++rank) {
      if (is_near(rank)) continue;
      const int shares = taker(here(), rank);
      if (shares != me()) {
        messages.incoming.push_back({shares, place(rank, step - 1)});
        continue;
      }
      for (const int other : machines_.on(here()))
        if (other != me()) messages.outgoing.push_back({other, place(rank, step - 1)});
    }
    exchange(messages);
  }
}

// Returns the maximum that a machine sends if ranks send each other their parts, in the ring's
// units.
double SharedMemoryAndGloo::sent_directly() const {
  double most = 0;
  const double all = machines_.members();
  for (int machine = 0; machine < machines_.count(); ++machine) {
    const auto there = static_cast<double>(machines_.on(machine).size());
    most = std::max(most, there * (all - there) / all);
  }
  return most;
}

void SharedMemoryAndGloo::reduce_to_all(const Buffer& data, CollectiveOp reduction) {
  if (is_small(data.bytes())) return reduce_whole(data, reduction);
  if (ring_.sent_to_all(data.dtype) > 2 * sent_directly())
    return HostBackend::reduce_to_all(data, reduction);
  ring_.reduce_to_all(data, reduction);
}

void SharedMemoryAndGloo::reduce_to_owners(const Buffer& out, const Buffer& in,
                                           CollectiveOp reduction) {
  if (is_small(in.bytes()) || ring_.sent_to_owners(in.dtype) > sent_directly())
    return HostBackend::reduce_to_owners(out, in, reduction);
  ring_.reduce_to_owners(out, in, reduction);
}

int SharedMemoryAndGloo::position(const Chain& chain, int machine) const {
  const int away = (machine - machines_.of(chain.root) + machines_.count()) % machines_.count();
  return chain.is_star ? std::min(away, 1) : away;
}

// In step s the machine at position p receives piece s-p+1 of every lane and forwards piece s-p.
void SharedMemoryAndGloo::pass_on(const Chain& chain, const Buffer& bytes, int64_t length,
                                  int64_t step, Load& messages) {
  const int lanes = machines_.most_members(), count = machines_.count();
  const int own_position = position(chain, here()), first = machines_.of(chain.root);
  const auto piece = [&](int lane, int64_t index) {
    const Part part = part_of(bytes.count, lane, lanes);
    const int64_t begin = std::clamp<int64_t>(index * length, 0, part.length);
    const int64_t end = std::clamp<int64_t>((index + 1) * length, 0, part.length);
    return bytes.part(part.begin + begin, end - begin);
  };
  for (int lane = 0; lane < lanes; ++lane) {
    const auto known = piece(lane, step - own_position);
    const int handles = handler(chain, here(), lane);
    if (handles != me()) {
      messages.incoming.push_back({handles, known});
      continue;
    }
    for (const int rank : machines_.on(here()))
      if (rank != me()) messages.outgoing.push_back({rank, known});
    if (own_position > 0) {
      const int before = chain.is_star ? first : (here() + count - 1) % count;
      messages.incoming.push_back(
          {handler(chain, before, lane), piece(lane, step - own_position + 1)});
    }
    for (int machine = 0; machine < count; ++machine) {
      const bool follows = chain.is_star ? own_position == 0 && machine != first
                                         : position(chain, machine) == own_position + 1;
      if (follows) messages.outgoing.push_back({handler(chain, machine, lane), known});
    }
  }
}

void SharedMemoryAndGloo::spread(const Buffer& data, int root) {
  const Chain chain{root, is_small(data.bytes())};
  const Buffer bytes(data.data, data.bytes(), DType::u8);
  const int64_t longest = part_of(bytes.count, 0, machines_.most_members()).length;
  const int64_t length = piece_of(longest), pieces = (longest + length - 1) / length;
  const int own_position = position(chain, here());
  for (int64_t step = std::max(0, own_position - 1); step < pieces + own_position; ++step) {
    Load messages;
    pass_on(chain, bytes, length, step, messages);
    exchange(messages);
  }
}

Membership members_here(const Membership& all, const Machines& machines) {
  const int here = machines.of(all.rank);
  Membership members{.name = fmt::format("{}.machine-{}", all.name, here),
                     .ranks = {},
                     .rank = machines.place_of(all.rank),
                     .rendezvous = all.rendezvous};
  for (const int rank : machines.on(here)) members.ranks.push_back(all.ranks[rank]);
  return members;
}

}  // namespace

// Sums in rank order can go from machine to machine only if each machine's ranks are consecutive.
std::unique_ptr<HostBackend> make_shared_memory_and_gloo(Membership members) {
  const Machines machines = Machines::of(members);
  if (machines.count() == 1 || machines.most_members() == 1 || !machines.are_runs()) return nullptr;
  std::unique_ptr<HostBackend> local;
  const Membership here = members_here(members, machines);
  if (here.size() > 1) local = make_shared_memory(here);
  if (!members.all_say("shares", local || here.size() == 1)) return nullptr;
  return std::make_unique<SharedMemoryAndGloo>(std::move(local), make_gloo(std::move(members)),
                                               machines);
}

}  // namespace booster
