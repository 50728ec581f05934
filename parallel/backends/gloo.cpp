// The backend over TCP by Gloo. Ranks find each other's addresses at the rendezvous.
//
// In Gloo of 2022 each pair of ranks has its own port, which accepts one connection, from any
// client. Ranks therefore prove to each other that they know the run's secret. If a stranger took a
// rank's connection, all ranks try again at other ports.
#include "parallel/backends/host_backend.h"
#include "parallel/backends/broken_pipe.h"
#include "parallel/backends/gloo_device.h"
#include "parallel/rendezvous/secret.h"
#include "platform/blocked_signals.h"
#include "platform/system_limits.h"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace booster {

namespace {

using gloo::transport::UnboundBuffer;
constexpr auto watch_interval = std::chrono::milliseconds(50);

// Time limit for ranks to connect after all have announced themselves. It doubles at each further
// attempt. Gloo waits five times its timeout for a connection.
constexpr auto first_limit = std::chrono::milliseconds(5000);
constexpr int most_attempts = 5, patience_of_gloo = 5;

// A message in progress: the buffer that Gloo fills or empties, and its peer.
struct Pending {
  std::unique_ptr<UnboundBuffer> buffer;
  int peer;
  bool sends;
  bool is_over = false;  // its wait has ended
};

class GlooBackend final : public HostBackend {
 public:
  explicit GlooBackend(Membership members);
  ~GlooBackend() override;
  const char* name() const override { return "gloo"; }
  void stop() override { stopped_ = true; }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override;

 protected:
  int64_t block_bytes() const override { return 4 << 20; }

 private:
  void connect();
  std::string problem_of_attempt(int attempt);
  void connect_pairs(int attempt);
  std::vector<std::vector<char>> exchange_addresses(int attempt, const std::vector<char>& own);
  void verify_peers();
  void await(Pending& message);
  std::vector<int> unfinished();
  void tell_wait();
  [[noreturn]] void explain(int peer, const char* what);
  void watch_peers();
  void end_watch();
  bool is_hopeless();

  std::optional<GlooDevice> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::chrono::milliseconds timeout_;
  gloo::transport::Context* connecting_ = nullptr;  // while pairs connect; guarded by mutex_
  std::vector<uint64_t> sent_, received_;           // messages so far, by peer: Gloo's slots
  std::mutex mutex_;
  std::vector<Pending> pending_;  // guarded by mutex_ where its size changes
  int waits_for_ = -1;            // peer whose message the operation waits for
  Clock::time_point last_move_;   // when connecting or the operation began, or when its last
                                  // message completed
  std::optional<SlowWait> wait_;  // for waits_for_; mutex_ guards all three
  std::atomic<bool> stopped_ = false, closing_ = false;
  std::thread watcher_;
};

GlooBackend::GlooBackend(Membership joined) : HostBackend(std::move(joined)) {
  {
    const kernels::BlockedSignals guard;
    watcher_ = start_thread("gloo: its watcher", [this] { watch_peers(); });
  }
  try {
    connect();
  } catch (...) {
    end_watch();
    throw;
  }
}

void GlooBackend::connect() {
  auto limit = first_limit;
  for (int attempt = 1;; ++attempt, limit *= 2) {
    timeout_ = limit;
    const std::string problem = problem_of_attempt(attempt);
    const std::string question = fmt::format("gloo-{}-connects", attempt);
    if (members().all_say(question, problem.empty())) break;
    if (attempt == most_attempts)
      fail_run("gloo: the ranks cannot connect: {}",
               problem.empty() ? "other ranks could not, and their errors say why" : problem);
  }
  timeout_ = group_timeout();
}

// Returns "" if this rank is connected to all others.
std::string GlooBackend::problem_of_attempt(int attempt) {
  try {
    connect_pairs(attempt);
    verify_peers();
    return "";
  } catch (const std::exception& error) {
    check_members();
    return error.what();
  }
}

// As Gloo's own connectFullMesh, but the watcher can end it.
void GlooBackend::connect_pairs(int attempt) {
  const BrokenPipeFails guard;
  const int ranks = members().size(), own = members().rank;
  context_.reset();
  device_.emplace(members().rendezvous->address());
  context_ = (*device_)->createContext(own, ranks);
  context_->setTimeout(timeout_ / patience_of_gloo);
  sent_.assign(ranks, 0);
  received_.assign(ranks, 0);
  std::vector<char> listening;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == own) continue;
    const auto address = context_->createPair(rank)->address().bytes();
    listening.insert(listening.end(), address.begin(), address.end());
  }
  const auto addresses = exchange_addresses(attempt, listening);
  struct Connecting {
    explicit Connecting(GlooBackend& backend) : backend(backend) { set(backend.context_.get()); }
    ~Connecting() { set(nullptr); }
    void set(gloo::transport::Context* context) {
      std::lock_guard lock(backend.mutex_);
      backend.connecting_ = context;
      backend.last_move_ = Clock::now();
    }
    GlooBackend& backend;
  } connecting(*this);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != own) context_->getPair(rank)->connect(addresses[rank]);
}

// Returns where every other rank listens for this one. `own` holds the addresses where this rank
// listens for each of them in turn.
std::vector<std::vector<char>> GlooBackend::exchange_addresses(int attempt,
                                                               const std::vector<char>& own) {
  const auto key = [&](int rank) {
    return fmt::format("{}.gloo-{}-{}", members().name, attempt, rank);
  };
  Rendezvous& rendezvous = *members().rendezvous;
  rendezvous.put(key(members().rank), {own.data(), own.size()});
  const size_t length = own.size() / std::max(members().size() - 1, 1);
  std::vector<std::vector<char>> addresses(members().size());
  for (int rank = 0; rank < members().size(); ++rank) {
    if (rank == members().rank) continue;
    const std::string theirs = rendezvous.get(key(rank), members().ranks);
    if (theirs.size() != own.size())
      fail_run("gloo: {} announces {} bytes of addresses; want {}", members().name_of(rank),
               theirs.size(), own.size());
    const auto at = theirs.begin() + (members().rank - (members().rank > rank)) * length;
    addresses[rank].assign(at, at + length);
  }
  return addresses;
}

GlooBackend::~GlooBackend() { end_watch(); }

void GlooBackend::end_watch() {
  closing_ = true;
  watcher_.join();
}

// Makes each pair of ranks prove to each other that they know the run's secret: each signs the
// other's random bytes.
void GlooBackend::verify_peers() {
  const int ranks = members().size(), own = members().rank;
  const std::string secret = members().rendezvous->secret();
  constexpr size_t length = 32;
  const auto all_exchange = [&](std::vector<std::string> sent) {
    std::vector<std::string> received(ranks, std::string(length, '\0'));
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == own) continue;
      outgoing.push_back({rank, std::as_bytes(std::span(sent[rank]))});
      incoming.push_back({rank, std::as_writable_bytes(std::span(received[rank]))});
    }
    exchange(outgoing, incoming);
    return received;
  };
  const auto proof = [&](int from, int to, const std::string& nonce) {
    return proof_of(secret, fmt::format("{}|{}|{}", members().name, from, to), nonce);
  };
  std::vector<std::string> nonces, proofs(ranks);
  for (int rank = 0; rank < ranks; ++rank) nonces.push_back(random_bytes(length));
  const auto theirs = all_exchange(nonces);
  for (int rank = 0; rank < ranks; ++rank) proofs[rank] = proof(own, rank, theirs[rank]);
  const auto shown = all_exchange(proofs);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != own && !is_same(shown[rank], proof(rank, own, nonces[rank])))
      fail_run("gloo: the process that connected as {} does not know the run's secret",
               members().name_of(rank));
}

bool GlooBackend::is_hopeless() {
  if (connecting_) return stopped_ || !trouble_in_wait({}, last_move_).empty();
  const int awaited = waits_for_ < 0 ? pending_[0].peer : waits_for_;
  return stopped_ || !trouble_in_wait({&awaited, 1}, last_move_).empty();
}

// Gloo detects a closed connection only to the rank that it waits for; the watcher detects any
// death, and ends the wait. It acts on the third consecutive sign, so that data sent before the end
// can arrive. It does not reconnect closed pairs.
void GlooBackend::watch_peers() {
  for (int strikes = 0; !closing_; std::this_thread::sleep_for(watch_interval)) {
    std::lock_guard lock(mutex_);
    tell_wait();
    const bool waits = connecting_ || !pending_.empty();
    strikes = !waits || !is_hopeless() ? 0 : strikes + 1;
    if (strikes < 3) continue;
    for (int rank = 0; connecting_ && rank < members().size(); ++rank)
      if (rank != members().rank) connecting_->getPair(rank)->close();
    for (Pending& message : pending_)
      message.sends ? message.buffer->abortWaitSend() : message.buffer->abortWaitRecv();
  }
}

void GlooBackend::tell_wait() {
  if (waits_for_ < 0) return wait_.reset();
  if (!wait_) wait_.emplace(members().ranks[members().rank]);
  still_waits(*wait_, waits_for_);
}

void GlooBackend::explain(int peer, const char* what) {
  // The kernel closes an ended process's connections and drops its locks at nearly the same time.
  for (int i = 0; i < 20; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    check_members();
  fail_run("{} closed its connection: {}", members().describe(peer), what);
}

// Returns the peers of messages that have not completed, among those not waited for yet. Completed
// messages report it immediately; the others report a closed connection.
std::vector<int> GlooBackend::unfinished() {
  std::vector<int> peers;
  for (Pending& message : pending_) {
    if (message.is_over) continue;
    constexpr std::chrono::milliseconds moment(1);
    try {
      if (message.sends ? message.buffer->waitSend(moment) : message.buffer->waitRecv(moment))
        continue;
    } catch (const gloo::Exception&) {
    }
    peers.push_back(message.peer);
  }
  return peers;
}

void GlooBackend::await(Pending& message) {
  UnboundBuffer& buffer = *message.buffer;
  {
    std::lock_guard lock(mutex_);
    if (waits_for_ != message.peer) wait_.reset();
    waits_for_ = message.peer;
  }
  const auto start = Clock::now();
  try {
    if (message.sends ? buffer.waitSend(timeout_) : buffer.waitRecv(timeout_)) {
      std::lock_guard lock(mutex_);
      last_move_ = Clock::now();
      message.is_over = true;
      return;
    }
  } catch (const gloo::Exception& error) {
    if (Clock::now() - start >= timeout_) fail_timeout(unfinished());
    explain(message.peer, error.what());
  }
  check_members();
  fail_run("the group was closed while an operation waited for {}",
           members().name_of(message.peer));
}

void GlooBackend::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
  const BrokenPipeFails guard;
  struct Clear {
    GlooBackend& backend;
    ~Clear() {
      std::lock_guard lock(backend.mutex_);
      backend.pending_.clear();
      backend.waits_for_ = -1;
      backend.wait_.reset();
    }
  } clear{*this};
  const auto start = [&](int peer, bool sends, const void* data, size_t bytes) {
    if (bytes == 0) return;
    auto buffer = context_->createUnboundBuffer(const_cast<void*>(data), bytes);
    sends ? buffer->send(peer, sent_[peer]++) : buffer->recv(peer, received_[peer]++);
    std::lock_guard lock(mutex_);
    last_move_ = Clock::now();
    pending_.push_back({std::move(buffer), peer, sends});
  };
  int peer = 0;
  try {
    for (const auto& message : incoming)
      start(peer = message.from, false, message.data.data(), message.data.size());
    for (const auto& message : outgoing)
      start(peer = message.to, true, message.data.data(), message.data.size());
  } catch (const gloo::Exception& error) {
    explain(peer, error.what());
  }
  for (Pending& message : pending_) await(message);
}

}  // namespace

std::unique_ptr<HostBackend> make_gloo(Membership members) {
  return std::make_unique<GlooBackend>(std::move(members));
}

}  // namespace booster
