#include "parallel/backends/host_backend.h"

#include "parallel/operations/parts.h"
#include "platform/environment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace booster {

namespace {

// How long other ranks may still be in an operation after a rank that has done its part ends.
constexpr auto farewell = std::chrono::milliseconds(1500);

// Below this size, exchanging all data is faster than reducing in parts.
constexpr int64_t whole_bytes = 16 << 10;

bool checks_wanted() { return environment::text("BOOSTER_CHECK_COLLECTIVES") != "0"; }

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Returns one message to a rank, or several that arrive in order.
template <class Byte>
std::array<std::span<Byte>, 1> in_a_row(std::span<Byte> message) {
  return {message};
}
template <class List>
List in_a_row(List messages) {
  return messages;
}

}  // namespace

HostBackend::HostBackend(Membership members)
    : Backend(std::move(members)), check_(checks_wanted()) {}

// A failure that a rank has reported ends the wait immediately.
std::string HostBackend::trouble_in_wait(std::span<const int> awaited,
                                         Clock::time_point since) const {
  if (!members().rendezvous) return "";
  if (Clock::now() - since < farewell) return members().rendezvous->trouble({});
  std::vector<int> ranks;
  if (!participants().empty())
    for (const int rank : awaited) ranks.push_back(members().ranks[rank]);
  return trouble_among(ranks);
}

void HostBackend::fail_timeout(std::span<const int> group_ranks) const {
  std::set<int> missing;
  for (const int rank : group_ranks) missing.insert(members().ranks[rank]);
  throw timed_out(*members().rendezvous, std::move(missing));
}

// Calls between two ranks have no number that all ranks share.
void HostBackend::still_waits(SlowWait& wait, int group_rank) const {
  const std::string_view operation = call().operation;
  const bool numbered =
      call().sequence > 0 && !operation.starts_with("send") && operation != "receive";
  wait.still([&] { return members().describe(group_rank); },
             [&] {
               return numbered ? fmt::format("{} (call {})", operation, call().sequence)
                               : std::string(operation);
             });
}

template <class OutgoingTo, class IncomingFrom>
void HostBackend::exchange_with_all(OutgoingTo&& outgoing_to, IncomingFrom&& incoming_from) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == members().rank) continue;
    for (const auto& data : in_a_row(outgoing_to(rank))) outgoing.push_back({rank, data});
    for (const auto& data : in_a_row(incoming_from(rank))) incoming.push_back({rank, data});
  }
  exchange(outgoing, incoming);
}

// Makes every rank send its next operation directly to every other rank, before any data moves. If
// a rank does not arrive, all others thus name that rank, not one that also waits for it.
bool HostBackend::agree(Signature own) {
  own.sequence = ++call().sequence;
  own.tag = call().tag;
  if (!check_) return own.is_direct;
  std::vector<Signature> all(size(), own);
  exchange_with_all([&](int) { return bytes_of(own); },
                    [&](int rank) { return bytes_of(all[rank]); });
  if (!std::ranges::all_of(all, [&](const Signature& s) { return s.is_same(own); })) {
    std::string text = "the ranks call different collectives: ";
    for (int rank = 0; rank < size(); ++rank)
      text += fmt::format("{}{}: {}", rank ? "; " : "", members().name_of(rank), all[rank].text());
    fail_run("{}", text);
  }
  return std::ranges::all_of(all, &Signature::is_direct);
}

void HostBackend::agree_once(const Signature& own) {
  if (!std::exchange(has_agreed_, false)) agree(own);
}

void HostBackend::reduce_whole(const Buffer& data, CollectiveOp reduction) {
  const auto bytes = static_cast<size_t>(data.bytes());
  received_.resize(size() * bytes);
  gather(data.all(), received_);
  std::vector<const void*> sources;
  for (int rank = 0; rank < size(); ++rank)
    sources.push_back(rank == members().rank ? data.data : received_.data() + rank * bytes);
  reduce_sources(data.data, sources, data.count, data.dtype, reduction, scratch_);
}

// Works block by block. It reduces arriving data while they are in the cache; meanwhile the next
// blocks are sent. With `share`, each reduced block is sent to all other ranks together with the
// next blocks, while it is still in the cache.
void HostBackend::reduce_own_part(const Buffer& data, const Buffer& out, CollectiveOp reduction,
                                  bool share) {
  const int64_t longest = part_of(data.count, 0, size()).length;
  const int64_t block = std::min(longest, block_bytes() / size_of(data.dtype));
  const int64_t stride = block * size_of(data.dtype);
  received_.resize(static_cast<size_t>(size() * stride));
  const auto block_of = [&](int rank, int64_t from) {
    const Part part = part_of(data.count, rank, size());
    if (from < 0 || from >= part.length) return data.part(part.begin, 0);
    return data.part(part.begin + from, std::min(part.length - from, block));
  };
  for (int64_t at = 0; at < longest + (share ? block : 0); at += block) {
    const int64_t reduced = share ? at - block : -1;
    const auto own = block_of(members().rank, at);
    const auto place = [&](int rank) {
      return std::span(received_).subspan(rank * stride, own.size());
    };
    exchange_with_all(
        [&](int rank) {
          return std::array{block_of(rank, at), block_of(members().rank, reduced)};
        },
        [&](int rank) {
          return std::array{place(rank), block_of(rank, reduced)};
        });
    std::vector<const void*> sources;
    for (int rank = 0; rank < size(); ++rank)
      sources.push_back(rank == members().rank ? own.data() : place(rank).data());
    const int64_t count = static_cast<int64_t>(own.size()) / size_of(data.dtype);
    if (count == 0) continue;
    reduce_sources(out.part(at, count).data(), sources, count, data.dtype, reduction, scratch_);
  }
}

void HostBackend::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  exchange_with_all([&](int) { return own; },
                    [&](int rank) { return all.subspan(rank * own.size(), own.size()); });
}

void HostBackend::reduce_to_all(const Buffer& data, CollectiveOp reduction) {
  if (data.bytes() <= whole_bytes) return reduce_whole(data, reduction);
  const Part own = part_of(data.count, members().rank, size());
  const Buffer out(data.part(own.begin, own.length).data(), own.length, data.dtype);
  reduce_own_part(data, out, reduction, true);
}

void HostBackend::reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  reduce_own_part(in, out, reduction, false);
}

void HostBackend::spread(const Buffer& data, int root) {
  if (members().rank != root) {
    const Incoming incoming{root, data.all()};
    return exchange({}, {&incoming, 1});
  }
  std::vector<Outgoing> outgoing;
  for (int rank = 0; rank < size(); ++rank)
    if (rank != root) outgoing.push_back({rank, data.all()});
  exchange(outgoing, {});
}

void HostBackend::all_reduce(const Buffer& data, CollectiveOp reduction) {
  agree_once(Signature::of(Collective::all_reduce, data, reduction));
  reduce_to_all(data, reduction);
}

void HostBackend::reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  agree_once(Signature::of(Collective::reduce_scatter, out, reduction));
  reduce_to_owners(out, in, reduction);
}

void HostBackend::broadcast(const Buffer& data, int root) {
  agree_once(Signature::of(Collective::broadcast, data, CollectiveOp::sum, members().ranks[root]));
  spread(data, root);
}

void HostBackend::all_gather(const Buffer& out, const Buffer& in) {
  agree_once(Signature::of(Collective::all_gather, in));
  const auto own = out.part(members().rank * in.count, in.count);
  if (own.data() != in.data) std::ranges::copy(in.all(), own.begin());
  gather(own, out.all());
}

void HostBackend::all_to_all(const Buffer& out, const Buffer& in) {
  agree_once(Signature::of(Collective::all_to_all, in));
  const int64_t length = in.count / size();
  const auto outgoing = [&](int rank) { return in.part(rank * length, length); };
  const auto incoming = [&](int rank) { return out.part(rank * length, length); };
  std::ranges::copy(outgoing(members().rank), incoming(members().rank).begin());
  exchange_with_all(outgoing, incoming);
}

// Exchanges with the one or two ranks that exist. A third rank may legitimately have ended.
void HostBackend::swap(const Messages& with, std::span<const std::byte> outgoing,
                       std::span<std::byte> incoming) {
  const bool sends = with.to != nobody && !outgoing.empty(),
             receives = with.from != nobody && !incoming.empty();
  const Outgoing sent{with.to, outgoing};
  const Incoming wanted{with.from, incoming};
  narrow_to(partners(with));
  exchange({&sent, sends ? 1u : 0u}, {&wanted, receives ? 1u : 0u});
  narrow_to({});
}

// Sends the sender's signature before its data. It has no call number: ranks outside the pair do
// not count the call. If the sender could send directly, the receiver answers whether it could
// receive directly.
Directly HostBackend::agree(const Messages& what, Directly possible) {
  const Signature sent = Signature::of(Collective::point_to_point, what.out).directly(possible.out),
                  wanted = Signature::of(Collective::point_to_point, what.in).directly(possible.in);
  Signature theirs = wanted;
  uint8_t answer = 1;
  if (check_) {
    swap(what, bytes_of(sent), bytes_of(theirs));
    if (!theirs.is_same(wanted))
      fail_run("the ranks call different operations: {}: {}; {}: {}", members().name_of(what.from),
               theirs.text(), members().name_of(members().rank), wanted.text());
    const bool asked = what.from != nobody && theirs.is_direct, asks = possible.out;
    const Messages back = {.to = asked ? what.from : nobody, .from = asks ? what.to : nobody};
    swap(back, bytes_of(wanted.is_direct), bytes_of(answer));
  }
  return {possible.out && answer, possible.in && theirs.is_direct};
}

void HostBackend::point_to_point(const Messages& what) {
  if (!std::exchange(has_agreed_, false)) agree(what, {});
  swap(what, what.out.all(), what.in.all());
}

void HostBackend::send(const Buffer& data, int to) { point_to_point({.out = data, .to = to}); }
void HostBackend::receive(const Buffer& data, int from) {
  point_to_point({.in = data, .from = from});
}
void HostBackend::send_receive(const Buffer& out, int to, const Buffer& in, int from) {
  point_to_point({out, to, in, from});
}

void HostBackend::barrier() {
  if (check_) return agree_once({});
  ++call().sequence;
  std::vector<std::byte> tokens(size());
  const auto token = [&](int rank) { return std::span(tokens).subspan(rank, 1); };
  exchange_with_all([&](int) { return token(members().rank); }, token);
}

}  // namespace booster
