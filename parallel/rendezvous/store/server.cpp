#include "parallel/rendezvous/store/server.h"

#include "parallel/rendezvous/rendezvous.h"
#include "parallel/rendezvous/secret.h"
#include "platform/blocked_signals.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <poll.h>

#include <algorithm>

namespace booster {

namespace {

using std::chrono::milliseconds;

constexpr size_t longest_hello = 4096;
constexpr auto time_for_hello = std::chrono::seconds(5);
constexpr auto time_for_farewell = std::chrono::seconds(1);  // for all together
constexpr size_t most_unknown = 256;
constexpr size_t most_stored = 64 << 20;
constexpr size_t most_outgoing = 64 << 20;
constexpr auto tick = milliseconds(100);

}  // namespace

StoreServer::StoreServer(Socket listener, Run run)
    : listener_(std::move(listener)),
      run_(std::move(run)),
      name_(hexadecimal(random_bytes(16))),
      heartbeat_(heartbeat_limit()) {
  const kernels::BlockedSignals guard;
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  if (thread_.joinable()) finish(milliseconds(0));
}

void StoreServer::finish(milliseconds longest) {
  last_moment_ = Clock::now() + longest;
  stopping_ = true;
  thread_.join();
}

bool StoreServer::is_done() const {
  if (!failure_.empty() || Clock::now() >= last_moment_) return true;
  return std::ranges::none_of(peers_, [](const Peer& peer) { return peer.rank > 0; });
}

void StoreServer::serve() {
  for (bool last = false; !last;) {
    last = stopping_ && is_done();  // what rank 0 sent before it left still counts
    wait();
    accept_all();
    for (Peer& peer : peers_)
      if (peer.ready) serve(peer);
    drop_silent();
    drop_gone();
  }
  const auto end = Clock::now() + time_for_farewell;
  for (const Peer& peer : peers_)
    if (peer.rank >= 0)
      peer.socket.write_all(peer.outgoing, std::chrono::ceil<milliseconds>(end - Clock::now()));
}

void StoreServer::wait() {
  // Without a descriptor for the new connection, the listener would always be ready.
  const bool can_accept = Clock::now() >= full_until_;
  std::vector<pollfd> files = {{listener_.file(), static_cast<short>(can_accept ? POLLIN : 0), 0}};
  for (const Peer& peer : peers_)
    files.push_back({peer.socket.file(),
                     static_cast<short>(peer.outgoing.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  poll(files.data(), files.size(), static_cast<int>(tick.count()));
  auto file = files.begin();
  for (Peer& peer : peers_) peer.ready = (++file)->revents != 0;
}

void StoreServer::accept_all() {
  for (Socket socket = listener_.accept(); socket.defined(); socket = listener_.accept()) {
    const auto unknown = [](const Peer& peer) { return peer.rank < 0; };
    if (static_cast<size_t>(std::ranges::count_if(peers_, unknown)) >= most_unknown)
      peers_.erase(std::ranges::find_if(peers_, unknown));
    const auto now = Clock::now();
    peers_.push_back({.socket = std::move(socket),
                      .nonce = random_bytes(32),
                      .reader = FrameReader(longest_hello),
                      .outgoing = "",
                      .since = now,
                      .silence = Silence(now)});
    tell(peers_.back(), {FrameKind::challenge, {peers_.back().nonce}});
  }
  if (errno == EMFILE || errno == ENFILE) full_until_ = Clock::now() + tick;
}

void StoreServer::serve(Peer& peer) {
  read(peer);
  if (!peer.outgoing.empty() && !peer.socket.write_from(peer.outgoing)) peer.gone = true;
  if (peer.closing && peer.outgoing.empty()) peer.gone = true;
}

// Reads a peer's frames. A peer that sends invalid frames gets no answer, since it may be any
// client.
void StoreServer::read(Peer& peer) {
  std::string bytes;
  if (!peer.socket.read_into(bytes)) peer.gone = true;
  if (!bytes.empty()) peer.silence.end();
  peer.reader.add(bytes);
  try {
    while (!peer.closing)
      if (const auto frame = peer.reader.next())
        answer(peer, *frame);
      else
        break;
  } catch (const Error&) {
    peer.gone = true;
  }
}

void StoreServer::answer(Peer& peer, const Frame& frame) {
  const auto& texts = frame.texts;
  if (peer.rank < 0) return welcome(peer, frame);
  if (!peer.takes_part) admit(peer);
  switch (frame.kind) {
    case FrameKind::put: return put(texts[0], texts[1]);
    case FrameKind::get:
      if (const auto found = values_.find(texts[0]); found != values_.end())
        tell(peer, {FrameKind::value, {found->first, found->second}});
      else {
        waiting_[texts[0]].push_back(peer.rank);
        tell(peer, {FrameKind::absent, {texts[0]}});
      }
      return;
    case FrameKind::failed: return fail_run_once(texts[0]);
    case FrameKind::alive: return;
    default: fail_data("store: a rank sent a frame that only the store may send");
  }
}

// Returns why this rank cannot take part; "" if it can.
std::string StoreServer::objection(const Frame& hello) const {
  const int rank = number_in(hello.texts[2], 1 << 20);
  const std::string& job = hello.texts[4];
  if (number_in(hello.texts[3], 1 << 20) != run_.size || job != run_.job)
    return fmt::format(
        "another job meets there: rank 0 belongs to {}; this is rank {} of {}; want a MASTER_PORT "
        "for each job, or one BOOSTER_JOB for all ranks of a job",
        run_.job, rank, terminal_text(job));
  if (rank >= run_.size)
    return fmt::format("no such rank; got {}, want 0 to {}", rank, run_.size - 1);
  std::string holder;
  if (const auto taken = processes_.find(rank); taken != processes_.end()) holder = taken->second;
  for (const Peer& peer : peers_)
    if (peer.rank == rank) holder = peer.process;
  if (holder.empty()) return "";
  return fmt::format(
      "rank {} of {} is already taken by {}; want each rank once, and a MASTER_PORT "
      "for each job",
      rank, run_.job, holder);
}

void StoreServer::refuse(Peer& peer, const std::string& why) {
  tell(peer, {FrameKind::refused, {why}});
  peer.closing = true;
}

void StoreServer::welcome(Peer& peer, const Frame& hello) {
  if (hello.kind != FrameKind::hello)
    fail_data("store: an unknown client sent something other than hello");
  const std::string &nonce = hello.texts[0], &proof = hello.texts[1], &rank = hello.texts[2],
                    &process = hello.texts[5];
  if (!is_same(proof, proof_of(run_.secret, purpose_of(hello), peer.nonce + nonce)))
    return refuse(peer, "it has another BOOSTER_SECRET");
  if (const std::string text = objection(hello); !text.empty()) return refuse(peer, text);
  peer.rank = number_in(rank, run_.size - 1);
  peer.process = terminal_text(process);
  peer.reader.set_longest(longest_store_frame);
  tell(peer, {FrameKind::welcome, {proof_of(run_.secret, "store", nonce + peer.nonce), name_}});
  for (const auto& [other, what] : processes_)
    tell(peer, {FrameKind::joined, {std::to_string(other), what}});
  for (const auto& [other, why] : left_)
    tell(peer, {FrameKind::left, {std::to_string(other), why}});
  if (!failure_.empty()) tell(peer, {FrameKind::failed, {failure_}});
}

void StoreServer::admit(Peer& peer) {
  peer.takes_part = true;
  processes_[peer.rank] = peer.process;
  tell_all({FrameKind::joined, {std::to_string(peer.rank), peer.process}});
  find_address(peer);
}

// Finds the address at which others reach rank 0's machine. The machine may not know it; it is the
// address at which a rank from elsewhere has connected.
void StoreServer::find_address(const Peer& peer) {
  const bool all_here = static_cast<int>(processes_.size()) == run_.size;
  if (values_.contains("address") || (peer.socket.is_loopback() && !all_here)) return;
  put("address", peer.socket.own_address());
}

void StoreServer::put(const std::string& key, const std::string& value) {
  const auto known = values_.find(key);
  const size_t before = known == values_.end() ? 0 : key.size() + known->second.size();
  const size_t after = stored_ - before + key.size() + value.size();
  if (after > most_stored)
    return fail_run_once(
        fmt::format("the value is too large; rank 0 stores at most {} bytes", most_stored));
  stored_ = after;
  values_[key] = value;
  const auto waiting = waiting_.extract(key);
  if (waiting.empty()) return;
  for (Peer& peer : peers_)
    if (std::ranges::count(waiting.mapped(), peer.rank))
      tell(peer, {FrameKind::value, {key, value}});
}

void StoreServer::fail_run_once(const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = why;
  tell_all({FrameKind::failed, {why}});
}

// Drops silent ranks except rank 0: it is this process, so its thread's silence has no meaning.
void StoreServer::drop_silent() {
  const auto now = Clock::now();
  for (Peer& peer : peers_) {
    const auto silent = peer.silence.length(now);
    if (peer.rank < 0 && now - peer.since > time_for_hello) peer.gone = true;
    if (peer.rank <= 0 || heartbeat_.count() == 0 || silent <= heartbeat_) continue;
    peer.why = fmt::format("has shown no sign of life for {:g} s (BOOSTER_HEARTBEAT)",
                           heartbeat_.count() / 1000.0);
    peer.gone = true;
  }
  if (heartbeat_.count() == 0 || now - told_alive_ < heartbeat_ / 4) return;
  told_alive_ = now;
  tell_all({FrameKind::alive, {}});
}

void StoreServer::drop_gone() {
  std::vector<int> ended;
  std::erase_if(peers_, [&](const Peer& peer) {
    if (peer.gone && peer.takes_part) {
      ended.push_back(peer.rank);
      left_[peer.rank] = peer.why;
    }
    return peer.gone;
  });
  for (const int rank : ended) tell_all({FrameKind::left, {std::to_string(rank), left_[rank]}});
}

void StoreServer::tell(Peer& peer, Frame frame) {
  peer.outgoing += encoded(frame);
  if (peer.outgoing.size() > most_outgoing) peer.gone = true;
}

void StoreServer::tell_all(const Frame& frame) {
  for (Peer& peer : peers_)
    if (peer.rank >= 0) tell(peer, frame);
}

}  // namespace booster
