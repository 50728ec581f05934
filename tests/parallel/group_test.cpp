// Every collective, on every backend, for 1 to 4 ranks and every dtype.
#include <doctest/doctest.h>

#include "parallel/backends/backend.h"
#include "parallel/mesh.h"
#include "tests/draws.h"
#include "tests/parallel/numbers.h"
#include "tests/parallel/ranks.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace booster;

namespace {

constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                            DType::i32, DType::i64, DType::u8,  DType::boolean};
// Sizes around the limits between algorithms: empty, odd, whole, one block of two ranks plus one
// element, and many blocks.
constexpr int64_t counts[] = {0, 7, 4097, 65537, 150001};

// Small integers, so that every dtype represents them and their sums exactly.
double value(DType dtype, int rank, int64_t i) {
  if (dtype == DType::boolean) return (rank + i) % 3 == 0;
  return static_cast<double>((rank * 3 + i * 7) % 5 + (dtype == DType::u8 ? 0 : -2));
}
std::vector<double> values(DType dtype, int rank, int64_t count) {
  std::vector<double> result(count);
  for (int64_t i = 0; i < count; ++i) result[i] = value(dtype, rank, i);
  return result;
}

double reduced(DType dtype, CollectiveOp reduction, int size, int64_t i) {
  double result = value(dtype, 0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double next = value(dtype, rank, i);
    if (reduction == CollectiveOp::max)
      result = std::max(result, next);
    else if (reduction == CollectiveOp::min)
      result = std::min(result, next);
    else if (reduction == CollectiveOp::prod)
      result *= next;
    else
      result += next;
  }
  if (dtype == DType::boolean) return result != 0;
  return reduction == CollectiveOp::mean ? result / size : result;
}

std::vector<CollectiveOp> reductions_of(DType dtype) {
  std::vector<CollectiveOp> all = {CollectiveOp::sum, CollectiveOp::max, CollectiveOp::min,
                                   CollectiveOp::prod};
  if (is_floating(dtype)) all.push_back(CollectiveOp::mean);
  return all;
}

// A mean may need rounding; everything else is exact.
bool same(const std::vector<double>& got, const std::vector<double>& want, DType dtype) {
  const double tolerance = dtype == DType::bf16 ? 1e-2 : dtype == DType::f16 ? 1e-3 : 1e-6;
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= tolerance * std::abs(want[i]))) return false;
  return got.size() == want.size();
}

void check_reductions(const Group& group, DType dtype, int64_t count) {
  for (CollectiveOp reduction : reductions_of(dtype)) {
    CAPTURE(name_of(dtype));
    CAPTURE(name_of(reduction));
    CAPTURE(count);
    Numbers data(values(dtype, group.rank(), count), dtype);
    group.all_reduce(data.buffer, reduction);
    std::vector<double> want(count);
    for (int64_t i = 0; i < count; ++i) want[i] = reduced(dtype, reduction, group.size(), i);
    CHECK(same(data.values(), want, dtype));

    Numbers in(values(dtype, group.rank(), count * group.size()), dtype), out(count, dtype);
    group.reduce_scatter(out.buffer, in.buffer, reduction);
    for (int64_t i = 0; i < count; ++i)
      want[i] = reduced(dtype, reduction, group.size(), group.rank() * count + i);
    CHECK(same(out.values(), want, dtype));
  }
}

// Gloo's blocks are 4 MiB: this gives several in each part, of different lengths.
void check_many_blocks(const Group& group) {
  const int64_t count = (group.size() + 1) * (int64_t{1} << 20) + 3;
  constexpr int period = 5;  // of the values
  float own[period], want[period];
  for (int i = 0; i < period; ++i) {
    own[i] = static_cast<float>(value(DType::f32, group.rank(), i));
    want[i] = static_cast<float>(reduced(DType::f32, CollectiveOp::sum, group.size(), i));
  }
  std::vector<float> data(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) data[i] = own[i % period];
  group.all_reduce(data);
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) wrong += data[i] != want[i % period];
  CHECK(wrong == 0);
}

void check_movements(const Group& group, DType dtype, int64_t count) {
  const int size = group.size(), rank = group.rank();
  CAPTURE(name_of(dtype));
  CAPTURE(count);
  for (int root = 0; root < size; ++root) {
    Numbers data(values(dtype, rank, count), dtype);
    group.broadcast(data.buffer, root);
    CHECK(data.values() == values(dtype, root, count));
  }
  Numbers own(values(dtype, rank, count), dtype), all(count * size, dtype);
  group.all_gather(all.buffer, own.buffer);
  std::vector<double> want;
  for (int from = 0; from < size; ++from)
    for (double x : values(dtype, from, count)) want.push_back(x);
  CHECK(all.values() == want);

  Numbers in(values(dtype, rank, count * size), dtype), out(count * size, dtype);
  group.all_to_all(out.buffer, in.buffer);
  for (int from = 0; from < size; ++from)
    for (int64_t i = 0; i < count; ++i)
      want[from * count + i] = value(dtype, from, rank * count + i);
  CHECK(out.values() == want);
}

void check_ring(const Group& group, int64_t count) {
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  Numbers out(values(DType::f32, group.rank(), count), DType::f32), in(count, DType::f32);
  group.send_receive(out.buffer, next, in.buffer, previous);
  CHECK(in.values() == values(DType::f32, previous, count));
  if (group.rank() == 0) {
    group.send(out.buffer, next);
    group.receive(in.buffer, previous);
  } else {
    group.receive(in.buffer, previous);
    group.send(in.buffer, next);
  }
  CHECK(in.values() == values(DType::f32, 0, count));
}

struct Setup {
  Connection connection;
  int size;
};
std::vector<Setup> setups() {
  std::vector<Setup> all = {{{"alone", {}}, 1}};
  for (const Connection& connection : connections())
    for (int size : {2, 3, 4}) all.push_back({connection, size});
  return all;
}

// Every dtype and count.
void check_values(const Group& group) {
  auto cell = static_cast<unsigned>(group.size());  // groups of other sizes draw other cells
  for (DType dtype : dtypes)
    for (int64_t count : counts) {
      if (!testing::is_drawn(cell++)) continue;
      check_reductions(group, dtype, count);
      check_movements(group, dtype, count);
    }
  if (group.size() > 1)
    for (int64_t count : {int64_t(1), int64_t(1100000)}) check_ring(group, count);
  check_many_blocks(group);
  for (int i = 0; i < 100; ++i) group.barrier();
}

void check_same_bits(const Group& group) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<double> random(50000);
    for (size_t i = 0; i < random.size(); ++i)
      random[i] = std::sin(1e3 * (double(i) + 1) * (group.rank() + 1));
    Numbers data(random, dtype), all(50000 * group.size(), dtype);
    group.all_reduce(data.buffer);
    group.all_gather(all.buffer, data.buffer);
    for (int rank = 0; rank < group.size(); ++rank)
      CHECK(std::memcmp(all.buffer.part(rank * 50000, 1).data(), data.memory.data(),
                        static_cast<size_t>(data.buffer.bytes())) == 0);
    // The sum is computed in f32 in the order of ranks, and rounded once.
    const Numbers first(random, dtype);
    group.all_gather(all.buffer, first.buffer);
    const auto values = all.values();
    std::vector<double> want(50000);
    for (size_t i = 0; i < want.size(); ++i) {
      float sum = static_cast<float>(values[i]);
      for (int rank = 1; rank < group.size(); ++rank)
        sum += static_cast<float>(values[rank * 50000 + i]);
      want[i] = sum;
    }
    CHECK(data.values() == Numbers(want, dtype).values());
  }
}

// Asynchronous operations run in the order of issue.
void check_order_of_issue(const Group& group) {
  std::vector<std::vector<float>> buckets(40);
  std::vector<Work> work;
  for (int i = 0; i < 40; ++i) {
    buckets[i].assign(1 + i * 997, static_cast<float>(i));
    work.push_back(group.all_reduce_async(buckets[i]));
    work.push_back(group.all_reduce_async(buckets[i], CollectiveOp::mean));  // runs after the sum
  }
  work.back().wait();
  for (const Work& item : work) CHECK(item.is_done());
  for (int i = 0; i < 40; ++i)
    for (float x : buckets[i]) REQUIRE(x == static_cast<float>(i * group.size()));
}

void check_tensors(const Group& group) {
  Tensor ones = full({3, 5}, group.rank() + 1.0);
  Work work;
  {
    const Tensor temporary = full({200000}, 1.0);
    work = group.all_reduce_async(temporary);  // kept alive by the operation
  }
  group.all_reduce(ones);
  work.wait();
  CHECK(ones.to_vector<double>() == std::vector<double>(15, group.size() * (group.size() + 1) / 2));
  CHECK_THROWS_AS(group.all_reduce(untracked::transpose(ones, 0, 1)), Error);
}

void check_subgroups(const Group& world) {
  std::vector<int> same_parity;
  for (int rank = world.size() - 1; rank >= 0; --rank)
    if (rank % 2 == world.rank() % 2) same_parity.push_back(rank);
  for (int round = 0; round < 2; ++round) {
    const Group group = world.subgroup(same_parity);
    CHECK(group.size() == static_cast<int>(same_parity.size()));
    CHECK(group.world_ranks() == same_parity);
    std::vector<float> data = {static_cast<float>(world.rank())}, all(group.size());
    group.all_gather(all, data);
    CHECK(all == std::vector<float>(same_parity.begin(), same_parity.end()));
  }
  world.barrier();
  CHECK_THROWS_AS(world.subgroup({world.size()}), Error);
}

}  // namespace

// One start of the ranks for all of them.
TEST_CASE("rank: operations" * doctest::skip()) {
  const Group group = launch_from_env().group();
  check_values(group);
  check_same_bits(group);
  check_order_of_issue(group);
  check_tensors(group);
  check_subgroups(group);
}
TEST_CASE("collectives have right values, the same bits everywhere, and the order of their issue") {
  for (const int size : {2, 3, 4}) CHECK(failures_over_mpi("rank: operations", size) == "");
  for (const Setup& setup : setups()) {
    CAPTURE(setup.connection.name);
    CAPTURE(setup.size);
    const auto environment = setup.connection.with({{"OMP_NUM_THREADS", "1"}});
    CHECK(failures(Ranks("rank: operations", setup.size, environment).wait(240)) == "");
  }
}

// Each name contains the names of all groups above it, and files have these names too.
TEST_CASE("rank: subgroups of subgroups" * doctest::skip()) {
  Group group = launch_from_env().group();
  std::vector<int> all(static_cast<size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  for (int depth = 0; depth < 50; ++depth) {
    group = group.subgroup(all);
    std::vector<float> sum = {static_cast<float>(group.rank() + depth)};
    group.all_reduce(sum);
    CHECK(sum[0] == group.size() * (group.size() - 1) / 2 + depth * group.size());
  }
}
TEST_CASE("subgroups may be as deep as one likes") {
  for (const auto& rank : Ranks("rank: subgroups of subgroups", 2).wait())
    CHECK_MESSAGE(rank.passed(), rank.output);
}

TEST_CASE("a group of one refuses what has no meaning") {
  const Group alone;
  CHECK(alone.backend() == "local");
  std::vector<float> two(2), three(3);
  std::vector<int32_t> whole(2);
  CHECK_THROWS_WITH_AS(
      alone.all_reduce(whole, CollectiveOp::mean),
      "all_reduce: a mean needs a floating dtype; got i32, want one of f32, f64, f16, bf16", Error);
  CHECK_THROWS_WITH_AS(alone.broadcast(two, 1),
                       "broadcast: no such rank in the group; got 1, want 0 to 0", Error);
  CHECK_THROWS_WITH_AS(alone.all_gather(three, two),
                       "all_gather: the output has 3 elements; want 1 x 2", Error);
  CHECK_THROWS_AS(alone.reduce_scatter(three, two), Error);
  CHECK_THROWS_AS(alone.all_to_all(two, two), Error);
  CHECK_THROWS_AS(alone.send(two, 0), Error);
  CHECK_THROWS_AS(alone.all_gather(two, whole), Error);
  CHECK_THROWS_AS(Buffer(nullptr, 3, DType::f32), Error);
}
