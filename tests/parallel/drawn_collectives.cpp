#include "tests/parallel/drawn_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

using namespace booster;

std::string DrawnCollective::text() const {
  constexpr const char* names[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter",
                                   "all_to_all", "ring",      "message",    "barrier"};
  return fmt::format("call {}: {} of {} {} by {}, {} {}", call, names[static_cast<int>(kind)],
                     count, name_of(dtype), name_of(reduction), a, b);
}

int64_t DrawnCollective::given(int size) const {
  const bool is_wide = kind == DrawnKind::reduce_scatter || kind == DrawnKind::all_to_all;
  return is_wide ? count * size : count;
}
int64_t DrawnCollective::got(int size) const {
  const bool is_wide = kind == DrawnKind::all_gather || kind == DrawnKind::all_to_all;
  return is_wide ? count * size : count;
}
bool DrawnCollective::takes_part(int rank) const {
  return kind != DrawnKind::message || rank == a || rank == b;
}
bool DrawnCollective::gives(int rank) const {
  return kind != DrawnKind::barrier && (kind != DrawnKind::message || rank == a);
}
bool DrawnCollective::gets(int rank) const {
  return kind != DrawnKind::barrier && (kind != DrawnKind::message || rank == b);
}

double DrawnCollective::number(int rank, int64_t i) const {
  if (dtype == DType::boolean) return (rank + i + call) % 3 == 0;
  const int64_t drawn = (rank * 3 + i * 7 + call) % 5;
  return static_cast<double>(drawn - (dtype == DType::u8 ? 0 : 2));
}

namespace {

double reduced(const DrawnCollective& drawn, int size, int64_t i) {
  double result = drawn.number(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double next = drawn.number(rank, i);
    switch (drawn.reduction) {
      case CollectiveOp::max: result = std::max(result, next); break;
      case CollectiveOp::min: result = std::min(result, next); break;
      case CollectiveOp::prod: result *= next; break;
      default: result += next;
    }
  }
  if (drawn.dtype == DType::boolean) return result != 0;
  return drawn.reduction == CollectiveOp::mean ? result / size : result;
}

}  // namespace

std::vector<double> DrawnCollective::wanted(int rank, int size) const {
  std::vector<double> all(static_cast<size_t>(got(size)));
  for (int64_t i = 0; i < got(size); ++i) {
    const auto at = static_cast<size_t>(i);
    switch (kind) {
      case DrawnKind::all_reduce: all[at] = reduced(*this, size, i); break;
      case DrawnKind::reduce_scatter: all[at] = reduced(*this, size, rank * count + i); break;
      case DrawnKind::broadcast:
      case DrawnKind::message: all[at] = number(a, i); break;
      case DrawnKind::all_gather: all[at] = number(static_cast<int>(i / count), i % count); break;
      case DrawnKind::all_to_all:
        all[at] = number(static_cast<int>(i / count), rank * count + i % count);
        break;
      case DrawnKind::ring: all[at] = number((rank + size - a) % size, i); break;
      case DrawnKind::barrier: break;
    }
  }
  return all;
}

Work DrawnCollective::issue(const Group& group, const Buffer& out, const Buffer& in) const {
  const int rank = group.rank(), size = group.size();
  switch (kind) {
    case DrawnKind::all_reduce: return group.all_reduce_async(out, reduction);
    case DrawnKind::broadcast: return group.broadcast_async(out, a);
    case DrawnKind::all_gather: return group.all_gather_async(out, in);
    case DrawnKind::reduce_scatter: return group.reduce_scatter_async(out, in, reduction);
    case DrawnKind::all_to_all: return group.all_to_all_async(out, in);
    case DrawnKind::ring:
      return group.send_receive_async(in, (rank + a) % size, out, (rank + size - a) % size);
    case DrawnKind::message:
      return rank == a ? group.send_async(in, b) : group.receive_async(out, a);
    default: return group.barrier_async();
  }
}

DrawnCollective draw_collective(std::mt19937& random, int call, int size) {
  constexpr int64_t counts[] = {0, 1, 7, 300, 4097, 20011};
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  DrawnCollective drawn;
  drawn.call = call;
  drawn.kind = static_cast<DrawnKind>(below(8));
  drawn.dtype = static_cast<DType>(below(8));
  drawn.reduction = static_cast<CollectiveOp>(below(is_floating(drawn.dtype) ? 5 : 4));
  if (!is_floating(drawn.dtype) && drawn.reduction == CollectiveOp::mean)
    drawn.reduction = CollectiveOp::prod;
  drawn.a = drawn.kind == DrawnKind::ring ? 1 + below(size - 1) : below(size);
  drawn.b = (drawn.a + 1 + below(size - 1)) % size;
  drawn.count = counts[below(static_cast<int>(std::size(counts)))];
  return drawn;
}
