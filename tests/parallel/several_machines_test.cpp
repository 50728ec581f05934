// Collectives over ranks on several machines, bitwise against a plain model: sums are in rank
// order, wherever the ranks are.
#include <doctest/doctest.h>

#include "parallel/mesh.h"
#include "parallel/rendezvous/machines.h"
#include "tests/draws.h"
#include "tests/parallel/numbers.h"
#include "tests/parallel/ranks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

using namespace booster;

namespace {

constexpr DType sent_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                 DType::i32, DType::i64, DType::u8,  DType::boolean};

// Returns rank `rank`'s data in call `call`, which every rank can compute.
std::vector<double> drawn(int call, int rank, DType dtype, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(call * 64 + rank));
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) {
    const double real = std::uniform_real_distribution(-2.0, 2.0)(random);
    value = dtype == DType::boolean ? real > 1.2
            : dtype == DType::u8    ? std::floor(real + 2)
            : is_floating(dtype)    ? real
                                    : std::round(real);
  }
  return Numbers(values, dtype).values();
}

template <class T>
T combined(CollectiveOp reduction, T a, T b) {
  switch (reduction) {
    case CollectiveOp::max: return std::max(a, b);
    case CollectiveOp::min: return std::min(a, b);
    case CollectiveOp::prod: return static_cast<T>(a * b);
    default: return static_cast<T>(a + b);
  }
}

// Reduces rank by rank, in T.
template <class T>
std::vector<double> reduced_in(const std::vector<std::vector<double>>& all,
                               CollectiveOp reduction) {
  std::vector<double> result;
  for (size_t i = 0; i < all[0].size(); ++i) {
    T value = static_cast<T>(all[0][i]);
    for (size_t rank = 1; rank < all.size(); ++rank)
      value = combined(reduction, value, static_cast<T>(all[rank][i]));
    if (reduction == CollectiveOp::mean) value = value / static_cast<T>(all.size());
    result.push_back(static_cast<double>(value));
  }
  return result;
}

std::vector<double> reduced(const std::vector<std::vector<double>>& all, DType dtype,
                            CollectiveOp reduction) {
  switch (dtype) {
    case DType::f64: return reduced_in<double>(all, reduction);
    case DType::i32: case DType::i64: return reduced_in<int64_t>(all, reduction);
    case DType::u8: return reduced_in<uint8_t>(all, reduction);
    case DType::boolean: {
      const bool any = reduction == CollectiveOp::sum || reduction == CollectiveOp::max;
      return reduced_in<int64_t>(all, any ? CollectiveOp::max : CollectiveOp::min);
    }
    default: return Numbers(reduced_in<float>(all, reduction), dtype).values();
  }
}

// Makes the same calls on all ranks.
class Drawing {
 public:
  Drawing(const Group& group, unsigned seed)
      : group_(group), random_(seed), call_(static_cast<int>(seed)) {}

  void make() {
    dtype_ = sent_dtypes[below(std::size(sent_dtypes))];
    // From no elements to several blocks of every lane.
    count_ = static_cast<int64_t>(
        std::exp(std::uniform_real_distribution(0.0, std::log(1.2e6))(random_))) - 1;
    reduction_ = static_cast<CollectiveOp>(below(5));
    if (reduction_ == CollectiveOp::mean && !is_floating(dtype_)) reduction_ = CollectiveOp::sum;
    root_ = static_cast<int>(below(static_cast<size_t>(group_.size())));
    const size_t which = below(6);
    CAPTURE(which);
    CAPTURE(name_of(dtype_));
    CAPTURE(name_of(reduction_));
    CAPTURE(count_);
    CAPTURE(root_);
    void (Drawing::*const calls[])() = {&Drawing::all_reduce, &Drawing::reduce_scatter,
                                        &Drawing::all_gather, &Drawing::broadcast,
                                        &Drawing::all_to_all, &Drawing::around};
    (this->*calls[which])();
  }

 private:
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
  std::vector<double> of(int rank, int64_t count) const {
    return drawn(call_, rank, dtype_, count);
  }
  std::vector<std::vector<double>> of_all(int64_t count) const {
    std::vector<std::vector<double>> all;
    for (int rank = 0; rank < group_.size(); ++rank) all.push_back(of(rank, count));
    return all;
  }
  std::vector<double> part(const std::vector<double>& values, int index) const {
    return {values.begin() + index * count_, values.begin() + (index + 1) * count_};
  }
  // For collectives with one part per rank.
  void shorten() { count_ /= group_.size(); }
  int64_t wide() const { return count_ * group_.size(); }

  void all_reduce() {
    Numbers data(of(group_.rank(), count_), dtype_);
    group_.all_reduce(data.buffer, reduction_);
    CHECK((data.values() == reduced(of_all(count_), dtype_, reduction_)));
  }
  void reduce_scatter() {
    shorten();
    Numbers in(of(group_.rank(), wide()), dtype_), out(count_, dtype_);
    group_.reduce_scatter(out.buffer, in.buffer, reduction_);
    const auto whole = reduced(of_all(wide()), dtype_, reduction_);
    CHECK((out.values() == part(whole, group_.rank())));
  }
  void all_gather() {
    shorten();
    Numbers own(of(group_.rank(), count_), dtype_), all(wide(), dtype_);
    group_.all_gather(all.buffer, own.buffer);
    for (int rank = 0; rank < group_.size(); ++rank)
      CHECK((part(all.values(), rank) == of(rank, count_)));
  }
  void broadcast() {
    Numbers data(of(group_.rank(), count_), dtype_);
    group_.broadcast(data.buffer, root_);
    CHECK((data.values() == of(root_, count_)));
  }
  void all_to_all() {
    shorten();
    Numbers in(of(group_.rank(), wide()), dtype_), out(wide(), dtype_);
    group_.all_to_all(out.buffer, in.buffer);
    for (int rank = 0; rank < group_.size(); ++rank)
      CHECK((part(out.values(), rank) == part(of(rank, wide()), group_.rank())));
  }
  void around() {
    const int size = group_.size(), next = (group_.rank() + 1) % size;
    const int previous = (group_.rank() + size - 1) % size;
    Numbers out(of(group_.rank(), count_), dtype_), in(count_, dtype_);
    group_.send_receive(out.buffer, next, in.buffer, previous);
    CHECK((in.values() == of(previous, count_)));
  }

  const Group& group_;
  std::mt19937 random_;
  int call_, root_ = 0;
  DType dtype_ = DType::f32;
  int64_t count_ = 0;
  CollectiveOp reduction_ = CollectiveOp::sum;
};

}  // namespace

TEST_CASE("rank: draws collectives" * doctest::skip()) {
  const Group group = launch_from_env().group();
  CHECK(group.backend() == std::getenv("WANTED_BACKEND"));
  const int layout = std::atoi(std::getenv("LAYOUT"));
  for (const unsigned draw : testing::draws(110)) {
    CAPTURE(draw);
    Drawing(group, draw * 8 + static_cast<unsigned>(layout)).make();
  }
}
TEST_CASE("collectives over several machines have the bits of a plain model") {
  struct Layout {
    const char *machines, *backend;
    int size;
  };
  int number = 0;
  for (const Layout& layout : {Layout{"1+1", "gloo", 2}, Layout{"2+2", "shm+gloo", 4},
                               Layout{"1+1+1", "gloo", 3}, Layout{"1+2", "shm+gloo", 3},
                               Layout{"3+3", "shm+gloo", 6}, Layout{"2+1+2", "shm+gloo", 5},
                               Layout{"1+2+2+2", "shm+gloo", 7}, Layout{"3", "shm", 3}}) {
    CAPTURE(layout.machines);
    const auto environment = over_store().with({{"TEST_MACHINES", layout.machines},
                                                {"WANTED_BACKEND", layout.backend},
                                                {"LAYOUT", std::to_string(number++)},
                                                {"OMP_NUM_THREADS", "1"}});
    CHECK(failures(Ranks("rank: draws collectives", layout.size, environment).wait(300)) == "");
  }
}

TEST_CASE("rank: groups within and across machines" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const int rank = world.rank(), other = rank ^ 1;
  CHECK(world.backend() == "shm+gloo");
  CHECK(world.subgroup({std::min(rank, other), std::max(rank, other)}).backend() == "shm");
  CHECK(world.subgroup({rank % 2, rank % 2 + 2}).backend() == "gloo");
  // Ranks of one machine are not consecutive here, so no sum in their order goes around a ring.
  const Group mixed = world.subgroup({0, 2, 1, 3});
  CHECK(mixed.backend() == "gloo");
  std::vector<float> one = {static_cast<float>(rank)}, all(4);
  mixed.all_gather(all, one);
  CHECK(all == std::vector<float>{0, 2, 1, 3});
}
TEST_CASE("a group takes shared memory within a machine, and Gloo where it must") {
  const auto environment = over_store().with({{"TEST_MACHINES", "2+2"}});
  CHECK(failures(Ranks("rank: groups within and across machines", 4, environment).wait()) == "");
}

TEST_CASE("rank: waits within a machine" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Group pair = world.rank() == 0 ? Group() : world.subgroup({1, 2});
  world.barrier();
  if (world.rank() == 0) ::raise(SIGKILL);
  if (world.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::raise(SIGKILL);
  }
  CHECK_THROWS_AS(pair.barrier(), Error);
}
TEST_CASE("who waits within a machine learns that rank 0 and then its neighbour are gone") {
  const auto environment = over_store().with({{"TEST_MACHINES", "1+2"}});
  const auto results = Ranks("rank: waits within a machine", 3, environment).wait();
  CHECK(results[0].status == SIGKILL);
  CHECK(results[1].status == SIGKILL);
  CHECK(failures({results[2]}) == "");
}

TEST_CASE("machines count in the order of their first ranks") {
  const Machines machines({"b", "a", "b", "c", "a"});
  CHECK(machines.count() == 3);
  CHECK(machines.on(0) == std::vector<int>{0, 2});
  CHECK(machines.on(1) == std::vector<int>{1, 4});
  CHECK(machines.of(4) == 1);
  CHECK(machines.place_of(4) == 1);
  CHECK(machines.most_members() == 2);
  CHECK(machines.owner(2, 1) == 3);
  CHECK(!machines.are_runs());
  CHECK(Machines({"x", "x", "a"}).are_runs());
}
