#include "parallel/groups/backend.h"

#include "parallel/groups/parts.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace booster {

namespace {

// Below this, one exchange of everything beats reducing in parts.
constexpr int64_t whole_bytes = 16 << 10;

constexpr int nobody = -1;

bool checks_wanted() {
  const char* text = std::getenv("BOOSTER_CHECK_COLLECTIVES");
  return !text || std::string_view(text) != "0";
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// One message to a rank, or several that arrive in this order.
template <class Byte>
std::array<std::span<Byte>, 1> in_a_row(std::span<Byte> message) {
  return {message};
}
template <class Messages>
Messages in_a_row(Messages messages) {
  return messages;
}

}  // namespace

Backend::Backend(Membership members)
    : members_(std::move(members)), watched_(members_.ranks), check_(checks_wanted()) {}

void Backend::serve(const Backend& whole) {
  call_ = whole.call_;
  watched_.insert(watched_.end(), whole.watched_.begin(), whole.watched_.end());
}

void Backend::check_members() const {
  if (!members_.rendezvous) return;
  const std::string problem = members_.rendezvous->trouble(watched_);
  if (!problem.empty()) fail_run("{}", problem);
}

void Backend::fail_timeout(int group_rank) const {
  fail_run("{} lives but did not come to a collective operation within {} s (BOOSTER_TIMEOUT)",
           members_.describe(group_rank), group_timeout().count() / 1000.0);
}

// Calls between two ranks have no number that all ranks share.
void Backend::still_waits(SlowWait& wait, int group_rank) const {
  const std::string_view operation = call_->operation;
  const bool numbered =
      call_->sequence > 0 && !operation.starts_with("send") && operation != "receive";
  wait.still([&] { return members_.describe(group_rank); },
             [&] {
               return numbered ? fmt::format("{} (call {})", operation, call_->sequence)
                               : std::string(operation);
             });
}

template <class OutgoingTo, class IncomingFrom>
void Backend::exchange_with_all(OutgoingTo&& outgoing_to, IncomingFrom&& incoming_from) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == members_.rank) continue;
    for (const auto& data : in_a_row(outgoing_to(rank))) outgoing.push_back({rank, data});
    for (const auto& data : in_a_row(incoming_from(rank))) incoming.push_back({rank, data});
  }
  exchange(outgoing, incoming);
}

void Backend::agree(Signature own) {
  own.sequence = ++call_->sequence;
  check_agreement(own);
}

// Every rank tells every other itself, whatever the ways of the data are: so whoever does not come
// is named by all others, and not somebody who waits for it too.
void Backend::check_agreement(const Signature& own) {
  if (!check_) return;
  std::vector<Signature> all(size(), own);
  exchange_with_all([&](int) { return bytes_of(own); },
                    [&](int rank) { return bytes_of(all[rank]); });
  if (std::all_of(all.begin(), all.end(), [&](const Signature& s) { return s == own; })) return;
  std::string text = "the ranks do not call the same collective: ";
  for (int rank = 0; rank < size(); ++rank)
    text += fmt::format("{}{}: {}", rank ? "; " : "", members_.name_of(rank), all[rank].text());
  fail_run("{}", text);
}

void Backend::reduce_whole(const Buffer& data, CollectiveOp reduction) {
  const auto bytes = static_cast<size_t>(data.bytes());
  received_.resize(size() * bytes);
  gather(data.all(), received_);
  std::vector<const void*> sources;
  for (int rank = 0; rank < size(); ++rank)
    sources.push_back(rank == members_.rank ? data.data : received_.data() + rank * bytes);
  reduce_sources(data.data, sources, data.count, data.dtype, reduction, scratch_);
}

// Block by block, so that what arrives is reduced while it is in the cache and while the next
// blocks are already on their way. With `share` every block that is reduced goes to all other ranks
// along with the next blocks, while it is in the cache too.
void Backend::reduce_own_part(const Buffer& data, const Buffer& out, CollectiveOp reduction,
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
    const auto own = block_of(members_.rank, at);
    const auto place = [&](int rank) {
      return std::span(received_).subspan(rank * stride, own.size());
    };
    exchange_with_all(
        [&](int rank) {
          return std::array{block_of(rank, at), block_of(members_.rank, reduced)};
        },
        [&](int rank) { return std::array{place(rank), block_of(rank, reduced)}; });
    std::vector<const void*> sources;
    for (int rank = 0; rank < size(); ++rank)
      sources.push_back(rank == members_.rank ? own.data() : place(rank).data());
    const int64_t count = static_cast<int64_t>(own.size()) / size_of(data.dtype);
    if (count == 0) continue;
    reduce_sources(out.part(at, count).data(), sources, count, data.dtype, reduction, scratch_);
  }
}

void Backend::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  exchange_with_all([&](int) { return own; },
                    [&](int rank) { return all.subspan(rank * own.size(), own.size()); });
}

void Backend::reduce_to_all(const Buffer& data, CollectiveOp reduction) {
  if (data.bytes() <= whole_bytes) return reduce_whole(data, reduction);
  const Part own = part_of(data.count, members_.rank, size());
  const Buffer out(data.part(own.begin, own.length).data(), own.length, data.dtype);
  reduce_own_part(data, out, reduction, true);
}

void Backend::reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  reduce_own_part(in, out, reduction, false);
}

void Backend::spread(const Buffer& data, int root) {
  if (members_.rank != root) {
    const Incoming incoming{root, data.all()};
    return exchange({}, {&incoming, 1});
  }
  std::vector<Outgoing> outgoing;
  for (int rank = 0; rank < size(); ++rank)
    if (rank != root) outgoing.push_back({rank, data.all()});
  exchange(outgoing, {});
}

void Backend::all_reduce(const Buffer& data, CollectiveOp reduction) {
  agree({.count = data.count,
         .operation = Operation::all_reduce,
         .reduction = reduction,
         .dtype = data.dtype});
  reduce_to_all(data, reduction);
}

void Backend::reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  agree({.count = out.count,
         .operation = Operation::reduce_scatter,
         .reduction = reduction,
         .dtype = in.dtype});
  reduce_to_owners(out, in, reduction);
}

void Backend::broadcast(const Buffer& data, int root) {
  agree({.count = data.count,
         .root = members_.ranks[root],
         .operation = Operation::broadcast,
         .dtype = data.dtype});
  spread(data, root);
}

void Backend::all_gather(const Buffer& out, const Buffer& in) {
  agree({.count = in.count, .operation = Operation::all_gather, .dtype = in.dtype});
  const auto own = out.part(members_.rank * in.count, in.count);
  if (own.data() != in.data) std::ranges::copy(in.all(), own.begin());
  gather(own, out.all());
}

void Backend::all_to_all(const Buffer& out, const Buffer& in) {
  agree({.count = in.count, .operation = Operation::all_to_all, .dtype = in.dtype});
  const int64_t length = in.count / size();
  const auto outgoing = [&](int rank) { return in.part(rank * length, length); };
  const auto incoming = [&](int rank) { return out.part(rank * length, length); };
  std::ranges::copy(outgoing(members_.rank), incoming(members_.rank).begin());
  exchange_with_all(outgoing, incoming);
}

// The sender's signature goes ahead of its data. It carries no call number: ranks outside the pair
// do not count the call.
void Backend::point_to_point(const Buffer& out, int to, const Buffer& in, int from) {
  const auto move = [&](std::span<const std::byte> outgoing, std::span<std::byte> incoming) {
    const Outgoing sent{to, outgoing};
    const Incoming wanted{from, incoming};
    exchange({&sent, to == nobody ? 0u : 1u}, {&wanted, from == nobody ? 0u : 1u});
  };
  const Signature sent = Signature::of_message(out), wanted = Signature::of_message(in);
  Signature theirs = wanted;
  if (check_) move(bytes_of(sent), bytes_of(theirs));
  if (theirs != wanted)
    fail_run("the ranks do not call the same operation: {}: {}; {}: {}", members_.name_of(from),
             theirs.text(), members_.name_of(members_.rank), wanted.text());
  move(out.all(), in.all());
}

void Backend::send(const Buffer& data, int to) { point_to_point(data, to, {}, nobody); }
void Backend::receive(const Buffer& data, int from) { point_to_point({}, nobody, data, from); }
void Backend::send_receive(const Buffer& out, int to, const Buffer& in, int from) {
  point_to_point(out, to, in, from);
}

void Backend::barrier() {
  agree({});
  if (check_) return;
  std::vector<std::byte> tokens(size());
  const auto token = [&](int rank) { return std::span(tokens).subspan(rank, 1); };
  exchange_with_all([&](int) { return token(members_.rank); }, token);
}

}  // namespace booster
