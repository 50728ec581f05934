#include "parallel/rendezvous/store/store.h"

#include "parallel/rendezvous/rank_notes.h"
#include "parallel/rendezvous/secret.h"
#include "parallel/rendezvous/slow_wait.h"
#include "parallel/rendezvous/store/silence.h"
#include "platform/blocked_signals.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <poll.h>

#include <algorithm>
#include <exception>

namespace booster {

namespace {

using std::chrono::milliseconds;

constexpr auto pause_between_tries = milliseconds(50);
constexpr auto one_try = std::chrono::seconds(5);
constexpr auto longest_send = std::chrono::seconds(10);
constexpr auto store_tick = milliseconds(200);
// How long a process of an earlier run may still hold the port.
constexpr auto store_handover = std::chrono::seconds(2);
constexpr const char* has_ended = "has ended";

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

StoreRendezvous::StoreRendezvous(Endpoint endpoint, int rank, int size, std::string job)
    : Rendezvous(rank, size),
      endpoint_(std::move(endpoint)),
      job_(std::move(job)),
      secret_(shared_secret()),
      heartbeat_(heartbeat_limit()),
      timeout_(group_timeout()) {
  if (rank == 0) keep_store();
  join();
  {
    const kernels::BlockedSignals guard;
    listener_ = std::thread([this] { listen(); });
  }
  // A failed program ends this way; its reports must still reach the others.
  at_quick_exit_.emplace([this] { leave(milliseconds(0)); });
}

StoreRendezvous::~StoreRendezvous() {
  at_quick_exit_.reset();
  leave(std::uncaught_exceptions() > 0 ? milliseconds(0) : timeout_);
}

void StoreRendezvous::leave(milliseconds longest) {
  leaving_ = true;
  socket_.end_sending();  // the store then closes the connection, which wakes the listener
  if (listener_.joinable()) listener_.join();
  socket_ = {};
  if (server_) server_->finish(longest);
  server_.reset();
}

void StoreRendezvous::keep_store() {
  std::string problem;
  const auto end = Clock::now() + store_handover;
  for (;; std::this_thread::sleep_for(pause_between_tries)) {
    Socket listener = Socket::listening(endpoint_, problem);
    if (listener.defined()) {
      server_ = std::make_unique<StoreServer>(std::move(listener),
                                              StoreServer::Run{size(), job_, secret_});
      return;
    }
    if (Clock::now() > end)
      fail_run(
          "rendezvous: rank 0 cannot listen at {}: {}; want a free MASTER_PORT and an address "
          "of this machine as MASTER_ADDR",
          endpoint_.text(), problem);
  }
}

void StoreRendezvous::join() {
  const auto start = Clock::now();
  SlowWait wait(rank());
  std::optional<Clock::time_point> refused;  // possibly by an earlier run that is about to end
  for (;; std::this_thread::sleep_for(pause_between_tries)) {
    std::string refusal;
    const std::string obstacle = try_to_join(refusal);
    if (obstacle.empty() && refusal.empty()) return;
    if (refusal.empty())
      refused.reset();
    else if (!refused)
      refused = Clock::now();
    if (refused && Clock::now() - *refused > store_handover) fail_run("rendezvous: {}", refusal);
    if (Clock::now() - start > group_timeout())
      fail_run("rendezvous: rank 0 did not arrive at {} within {:g} s: {}", endpoint_.text(),
               seconds(group_timeout()), refusal.empty() ? obstacle : refusal);
    wait.still([] { return "rank 0"; }, [&] { return endpoint_.text(); });
  }
}

std::string StoreRendezvous::try_to_join(std::string& refusal) {
  std::string problem;
  const auto end = Clock::now() + one_try;
  socket_ = Socket::connected(endpoint_, one_try, problem);
  if (!socket_.defined()) return problem;
  reader_ = FrameReader(longest_store_frame);
  try {
    const Frame challenge = next_frame(end);
    if (challenge.kind != FrameKind::challenge)
      return "the process that listens there is not a store of booster";
    const std::string nonce = random_bytes(32), theirs = challenge.texts[0];
    Frame hello{FrameKind::hello,
                {nonce, "", std::to_string(rank()), std::to_string(size()), job_, own_process()}};
    hello.texts[1] = proof_of(secret_, purpose_of(hello), theirs + nonce);
    send(hello);
    const Frame answer = next_frame(end);
    const bool is_welcome = answer.kind == FrameKind::welcome &&
                            is_same(answer.texts[0], proof_of(secret_, "store", nonce + theirs));
    if (answer.kind == FrameKind::refused)
      refusal = fmt::format("{} refuses rank {}: {}", endpoint_.text(), rank(),
                            terminal_text(answer.texts[0]));
    else if (!is_welcome)
      refusal = fmt::format("the process that listens at {} does not know BOOSTER_SECRET",
                            endpoint_.text());
    if (!is_welcome) return "";
    run_secret_ = hmac_sha256(secret_, answer.texts[1]);
    send({FrameKind::alive, {}});  // this rank is still here, and takes part
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Frame StoreRendezvous::next_frame(Clock::time_point end) {
  for (std::string bytes;; bytes.clear()) {
    if (auto frame = reader_.next()) return std::move(*frame);
    pollfd waiting = {socket_.file(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) <= 0)
      fail_data("no answer");
    if (!socket_.read_into(bytes)) fail_data("the connection was closed");
    reader_.add(bytes);
  }
}

// Runs on the thread that receives the store's messages and sends signs of life. On rank 0 the
// store's silence has no meaning, because this process runs the store.
void StoreRendezvous::listen() {
  auto told = Clock::now();
  Silence silence(told);
  std::string bytes;
  for (bool connected = true; connected && !leaving_; bytes.clear()) {
    try {
      while (auto frame = reader_.next()) take(std::move(*frame));
    } catch (const Error& error) {
      return lose_store(error.what());
    }
    pollfd waiting = {socket_.file(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(store_tick.count())) > 0)
      connected = socket_.read_into(bytes);
    reader_.add(bytes);
    const auto now = Clock::now();
    if (!bytes.empty()) silence.end();
    if (heartbeat_.count() == 0) continue;
    if (now - told > heartbeat_ / 4) send({FrameKind::alive, {}}), told = now;
    if (silence.length(now) > heartbeat_ && !server_)
      return lose_store(fmt::format("has shown no sign of life for {:g} s (BOOSTER_HEARTBEAT)",
                                    seconds(heartbeat_)));
  }
  if (!leaving_) lose_store(has_ended);
}

void StoreRendezvous::take(Frame frame) {
  auto& texts = frame.texts;
  std::lock_guard lock(mutex_);
  switch (frame.kind) {
    case FrameKind::value: values_[texts[0]] = std::move(texts[1]); break;
    case FrameKind::absent: absent_.insert(std::move(texts[0])); break;
    case FrameKind::joined: processes_[number_in(texts[0], size() - 1)] = texts[1]; break;
    case FrameKind::left:
      left_[number_in(texts[0], size() - 1)] = texts[1].empty() ? has_ended : texts[1];
      break;
    case FrameKind::failed: failure_ = texts[0]; break;
    default: break;
  }
  changed_.notify_all();
}

void StoreRendezvous::lose_store(const std::string& why) {
  std::lock_guard lock(mutex_);
  left_.try_emplace(0, why);
  lost_store_ = true;
  changed_.notify_all();
}

// Sends a frame. After a partial frame nothing else can be sent; waiting threads then see the store
// as lost.
void StoreRendezvous::send(const Frame& frame) {
  const auto is_sent = [&] {
    std::lock_guard lock(sending_);
    return socket_.write_all(encoded(frame), longest_send);
  };
  if (!is_sent() && !leaving_) lose_store(has_ended);
}

// Returns false on a timeout; throws for trouble. `hopeless` says whether a rank that is gone, or
// the lack of a store, means that the wait would be in vain.
template <class Ready, class Hopeless, class Where>
bool StoreRendezvous::wait_until(std::vector<int> ranks, Ready&& ready, Hopeless&& hopeless,
                                 Where&& where) {
  const auto end = Clock::now() + group_timeout();
  SlowWait wait(rank());
  std::unique_lock lock(mutex_);
  for (; !ready(); changed_.wait_for(lock, store_tick)) {
    if (lost_store_) ranks.push_back(0);  // it ran the store
    if (!failure_.empty() || lost_store_ || hopeless()) {
      lock.unlock();
      fail_run("rendezvous: {}", trouble(ranks));
    }
    if (Clock::now() > end) return false;
    wait.still([&] { return "rank " + missing(ranks); }, where);
  }
  return true;
}

void StoreRendezvous::wait_for(const std::vector<int>& ranks) {
  const auto all_here = [&] { return missing(ranks).empty(); };
  const auto one_is_gone = [&] { return lost_of(ranks).has_value(); };
  if (wait_until(ranks, all_here, one_is_gone, [&] { return endpoint_.text(); })) return;
  std::lock_guard lock(mutex_);
  fail_run("rendezvous: not all ranks arrived within {:g} s; missing: rank {}",
           seconds(group_timeout()), missing(ranks));
}

void StoreRendezvous::put(const std::string& key, std::string_view value) {
  check(key.size() + value.size() + 64 < longest_store_frame,
        "rendezvous: the value of {} has {} bytes; want less than {}", key, value.size(),
        longest_store_frame);
  send({FrameKind::put, {key, std::string(value)}});
}

std::string StoreRendezvous::get(const std::string& key, const std::vector<int>& ranks) {
  send({FrameKind::get, {key}});
  const auto is_there = [&] { return values_.contains(key); };
  // A rank may have put the value before it left: the store's answer comes first.
  const auto never_comes = [&] { return absent_.contains(key) && lost_of(ranks); };
  if (!wait_until(ranks, is_there, never_comes, [&] { return key; }))
    fail_run("rendezvous: no rank published '{}' within {:g} s", key, seconds(group_timeout()));
  std::lock_guard lock(mutex_);
  return values_.at(key);
}

std::optional<std::string> StoreRendezvous::look(const std::string& key) {
  bool is_new = false;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    is_new = asked_.insert(key).second;
  }
  if (is_new) send({FrameKind::get, {key}});
  return std::nullopt;
}

std::string StoreRendezvous::address() {
  return socket_.is_loopback() ? get("address", {}) : socket_.own_address();
}

bool StoreRendezvous::has_lost_one() {
  const std::lock_guard lock(mutex_);
  return !failure_.empty() || lost_store_ || !left_.empty();
}

std::string StoreRendezvous::trouble(const std::vector<int>& ranks) {
  std::unique_lock lock(mutex_);
  std::string text = failure_;
  const auto lost = lost_of(ranks);
  const std::string why = lost ? left_.at(*lost) : "";
  lock.unlock();
  if (text.empty() && !lost) return "";
  if (text.empty()) {
    text = fmt::format("{} {} while other ranks still need it", describe(*lost), why);
    send({FrameKind::failed, {text}});
  }
  if (!gave_up_) put_note(RankNote::follows, text);
  return text;
}

// Returns the first of the ranks that is gone.
std::optional<int> StoreRendezvous::lost_of(const std::vector<int>& ranks) const {
  const auto lost = std::ranges::find_if(ranks, [&](int rank) { return left_.contains(rank); });
  return lost == ranks.end() ? std::nullopt : std::optional(*lost);
}

void StoreRendezvous::report_failure(std::string_view text) {
  gave_up_ = true;
  send({FrameKind::failed, {std::string(text.substr(0, longest_store_frame / 2))}});
}

// Returns the ranks that have not joined yet, as "1, 3".
std::string StoreRendezvous::missing(const std::vector<int>& ranks) const {
  std::string list;
  for (const int rank : ranks)
    if (!processes_.contains(rank)) list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
  return list;
}

std::string StoreRendezvous::process(int rank) const {
  std::lock_guard lock(mutex_);
  const auto found = processes_.find(rank);
  return found == processes_.end() ? "" : terminal_text(found->second);
}

}  // namespace booster
