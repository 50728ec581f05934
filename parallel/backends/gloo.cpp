// The backend over TCP by Gloo. Ranks find each other's addresses at the rendezvous.
#include "kernels/system/blocked_signals.h"
#include "parallel/backends/backend.h"
#include "parallel/rendezvous/secret.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace booster {

namespace {

using gloo::transport::UnboundBuffer;
constexpr auto watch_interval = std::chrono::milliseconds(50);

// Gloo's key-value interface on the rendezvous.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  explicit RendezvousStore(const Membership& members) : members_(members) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    members_.rendezvous->put(name(key), {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string data = members_.rendezvous->get(name(key), members_.ranks);
    return {data.begin(), data.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  std::string name(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '-');
    return members_.name + ".gloo-" + key;
  }
  const Membership& members_;
};

// One message under way: the buffer that Gloo fills or empties, and whom it concerns.
struct Pending {
  std::unique_ptr<UnboundBuffer> buffer;
  int peer;
  bool sends;
};

class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(Membership members);
  ~GlooBackend() override;
  const char* name() const override { return "gloo"; }
  void stop() override { stopped_ = true; }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override;

 protected:
  int64_t block_bytes() const override { return 4 << 20; }

 private:
  void verify_peers();
  void await(Pending& message);
  void tell_wait();
  [[noreturn]] void explain(int peer, const char* what);
  void watch();
  void end_watch();
  bool is_hopeless();

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::chrono::milliseconds timeout_;
  std::vector<uint64_t> sent_, received_;  // messages so far, by peer: Gloo's slots
  std::mutex mutex_;
  std::vector<Pending> pending_;  // guarded by mutex_ where its size changes
  int waits_for_ = -1;            // the peer of the message that the operation waits for
  Clock::time_point last_move_;   // when the operation began or a message of it was complete
  std::optional<SlowWait> wait_;  // for it; all three guarded by mutex_
  std::atomic<bool> stopped_ = false, closing_ = false;
  std::thread watcher_;
};

GlooBackend::GlooBackend(Membership joined)
    : Backend(std::move(joined)),
      timeout_(group_timeout()),
      sent_(members().size()),
      received_(members().size()) {
  // Gloo's own threads inherit the mask: a write to a dead peer must not end the process.
  const kernels::BlockedSignals guard;
  gloo::transport::tcp::attr attributes;
  attributes.hostname = members().rendezvous->address();
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context_ = std::make_shared<gloo::rendezvous::Context>(members().rank, members().size());
  // Longer than our own limit, which knows the rank to name.
  context_->setTimeout(timeout_ * 2 + std::chrono::seconds(5));
  RendezvousStore store(members());
  try {
    context_->connectFullMesh(store, device);
  } catch (const gloo::Exception& error) {
    check_members();
    fail_run("gloo: the ranks cannot connect: {}", error.what());
  }
  watcher_ = std::thread([this] { watch(); });
  try {
    verify_peers();
  } catch (...) {
    end_watch();
    throw;
  }
}

GlooBackend::~GlooBackend() { end_watch(); }

void GlooBackend::end_watch() {
  closing_ = true;
  watcher_.join();
}

// Gloo takes any connection that gives the right number. Every pair therefore shows each other
// that they know the secret of the run, each by signing what the other has drawn.
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
      fail_run("gloo: whoever has connected as {} does not know the secret of the run",
               members().name_of(rank));
}

bool GlooBackend::is_hopeless() {
  const int awaited = waits_for_ < 0 ? pending_[0].peer : waits_for_;
  return stopped_ || !trouble_in_wait({&awaited, 1}, last_move_).empty();
}

// Gloo sees a closed connection only to the rank that it waits for; the watcher sees any death, and
// wakes whoever waits. A second look lets data arrive that was sent before the end.
void GlooBackend::watch() {
  for (int strikes = 0; !closing_; std::this_thread::sleep_for(watch_interval)) {
    std::lock_guard lock(mutex_);
    tell_wait();
    strikes = pending_.empty() || !is_hopeless() ? 0 : strikes + 1;
    if (strikes < 3) continue;
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
  // The kernel closes connections and drops locks of an ended process at nearly the same time.
  for (int i = 0; i < 20; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    check_members();
  fail_run("{} closed its connection: {}", members().describe(peer), what);
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
      return;
    }
  } catch (const gloo::Exception& error) {
    if (Clock::now() - start >= timeout_) fail_timeout(message.peer);
    explain(message.peer, error.what());
  }
  check_members();
  fail_run("the group was closed while an operation waited for {}",
           members().name_of(message.peer));
}

void GlooBackend::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
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

std::unique_ptr<Backend> make_gloo(Membership members) {
  return std::make_unique<GlooBackend>(std::move(members));
}

}  // namespace booster
