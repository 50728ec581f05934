// Groups whose ranks have one GPU each, with NCCL or its emulation (tests/cuda_on_host/nccl).
#include "core/tensor/random/random.h"
#include "tests/parallel/drawn_collectives.h"
#include "tests/parallel/gpu/gpu_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace booster;

namespace {

// Returns a part of a larger tensor, written by a kernel that the GPU has not run yet.
Tensor on_gpu(const std::vector<double>& values, DType dtype, Device device) {
  std::vector<double> more = values;
  more.insert(more.begin(), 3, 1.0);
  more.insert(more.end(), 2, 1.0);
  Tensor all = untracked::cast(from_vector(more, {static_cast<int64_t>(more.size())}), dtype);
  all = all.to(device);
  const Tensor part = untracked::narrow(all, 0, 3, static_cast<int64_t>(values.size()));
  if (!is_floating(dtype)) return part;
  all.mul_(2);
  all.mul_(0.5);
  return part;
}

bool is_near(const std::vector<double>& got, const std::vector<double>& want, DType dtype) {
  const double tolerance = dtype == DType::bf16 ? 2e-2 : dtype == DType::f16 ? 2e-3 : 1e-6;
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= tolerance)) return false;
  return got.size() == want.size();
}

// An issued collective.
struct Issued {
  DrawnCollective drawn;
  Tensor out;
  Work work;
};

// Releases the inputs at once: the operation must keep their memory.
Issued issue(const Group& group, Device device, const DrawnCollective& drawn) {
  const int rank = group.rank(), size = group.size();
  if (drawn.kind == DrawnKind::barrier) return {drawn, {}, drawn.issue(group, {}, {})};
  std::vector<double> given(static_cast<size_t>(drawn.given(size)));
  for (size_t i = 0; i < given.size(); ++i) given[i] = drawn.number(rank, static_cast<int64_t>(i));
  const Tensor in = on_gpu(given, drawn.dtype, device);
  const bool in_place = drawn.kind == DrawnKind::all_reduce || drawn.kind == DrawnKind::broadcast;
  const std::vector<double> nothing(static_cast<size_t>(drawn.got(size)), 1.0);
  const Tensor out = in_place ? in : on_gpu(nothing, drawn.dtype, device);
  return {drawn, out, drawn.issue(group, out, in)};
}

void finish(const Group& group, const Issued& issued) {
  const DrawnCollective& drawn = issued.drawn;
  issued.work.wait();
  if (!drawn.gets(group.rank())) return;
  CAPTURE(drawn.text());
  Tensor result = issued.out;
  if (is_floating(drawn.dtype)) {  // with a kernel that follows
    result = untracked::cast(result, DType::f64);
    result.add_(ones({1}, {.dtype = DType::f64, .device = result.device()}));
  }
  auto want = drawn.wanted(group.rank(), group.size());
  for (double& number : want) number += is_floating(drawn.dtype) ? 1 : 0;
  CHECK(is_near(result.to_vector<double>(), want, drawn.dtype));
}

void run_drawn(const Group& group, Device device, unsigned seed, int calls) {
  std::mt19937 random(seed), own(seed + 100 * static_cast<unsigned>(group.rank()));
  std::vector<Issued> pending;
  for (int call = 0; call < calls; ++call) {
    const DrawnCollective drawn = draw_collective(random, call, group.size());
    if (drawn.takes_part(group.rank())) pending.push_back(issue(group, device, drawn));
    while (!pending.empty() && own() % 3 == 0) {
      const auto chosen = pending.begin() + static_cast<long>(own() % pending.size());
      finish(group, *chosen);
      pending.erase(chosen);
    }
  }
  for (const Issued& issued : pending) finish(group, issued);
}

}  // namespace

TEST_CASE("rank: drawn collectives on GPUs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  for (const unsigned seed : {1u, 2u}) run_drawn(group, gpu_of(world), seed, 50);
  CHECK(group.backend() == "nccl");
}
TEST_CASE("GPU: NCCL gives what a plain model of collectives gives" * on_several_gpus()) {
  for (const int size : {2, 3, 4}) {
    CAPTURE(size);
    const std::string name = "rank: drawn collectives on GPUs";
    CHECK(failures_on_gpus(name, size) == "");
    CHECK(failures_on_gpus(name, size, {{"BOOSTER_CHECK_COLLECTIVES", "0"}}) == "");
  }
  CHECK(failures_on_gpus("rank: drawn collectives on GPUs", 3, over_store().environment) == "");
  CHECK(failures_on_gpus("rank: drawn collectives on GPUs", 3, {{"BOOSTER_BACKEND", "nccl"}}) ==
        "");
}

TEST_CASE("rank: messages before all ranks are connected" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  const int size = group.size(), next = (world.rank + 1) % size,
            previous = (world.rank + size - 1) % size;
  const Tensor in = empty({5000}, {.device = gpu_of(world)});
  for (int round = 0; round < 3; ++round) {
    const Tensor out = full({5000}, world.rank + 10.0 * round, {.device = gpu_of(world)});
    group.send_receive(out, next, in, previous);
    CHECK(in.to_vector<double>() == std::vector<double>(5000, previous + 10.0 * round));
  }
  if (world.rank == 0) group.send(in, size - 1);
  if (world.rank == size - 1) group.receive(in, 0);
  CHECK(group.backend() == "nccl");
}
TEST_CASE("GPU: ranks that only send and receive connect in pairs" * on_several_gpus()) {
  for (const int size : {2, 3, 4})
    CHECK(failures_on_gpus("rank: messages before all ranks are connected", size) == "");
}

TEST_CASE("rank: two groups on GPUs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group all = world.group(), backwards = [&] {
    std::vector<int> ranks = all.world_ranks();
    std::reverse(ranks.begin(), ranks.end());
    return all.subgroup(ranks);
  }();
  for (int round = 0; round < 20; ++round) {
    const Tensor a = full({3000}, world.rank, {.device = gpu_of(world)}), b = a.clone();
    std::vector<Work> works;
    const auto first = [&] { works.push_back(all.all_reduce_async(a)); };
    const auto second = [&] { works.push_back(backwards.broadcast_async(b, round % 2)); };
    if ((world.rank + round) % 2)
      first(), second();
    else
      second(), first();
    for (const Work& work : works) work.wait();
    const double sum = world.size * (world.size - 1) / 2.0, root = world.size - 1 - round % 2;
    CHECK(a.to_vector<double>() == std::vector<double>(3000, sum));
    CHECK(b.to_vector<double>() == std::vector<double>(3000, root));
  }
}
TEST_CASE("GPU: groups may be used in another order on every rank" * on_several_gpus()) {
  for (const int size : {2, 3}) CHECK(failures_on_gpus("rank: two groups on GPUs", size) == "");
}

TEST_CASE("rank: not all on GPUs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  const auto place = [&](int host) { return world.rank == host ? Device{} : gpu_of(world); };
  const auto numbers = [&](Device device) {
    return full({500}, world.rank + 1.0, {.device = device});
  };
  for (int host = 0; host < world.size; ++host) {
    const Tensor x = numbers(place(host));
    group.all_reduce(x);
    const double sum = world.size * (world.size + 1) / 2.0;
    CHECK(x.to_vector<double>() == std::vector<double>(500, sum));
    const Tensor out = numbers(place(host)), in = numbers(place((host + 1) % world.size));
    group.send_receive(out, (world.rank + 1) % world.size, in,
                       (world.rank + world.size - 1) % world.size);
    const double sent = (world.rank + world.size - 1) % world.size + 1.0;
    CHECK(in.to_vector<double>() == std::vector<double>(500, sent));
  }
  const Tensor x = numbers(gpu_of(world));
  group.all_reduce(x, CollectiveOp::max);
  CHECK(x.to_vector<double>() == std::vector<double>(500, world.size));
  CHECK(group.backend() == "nccl");
}
TEST_CASE("GPU: some ranks may have their tensors on the CPU" * on_several_gpus()) {
  for (const int size : {2, 3}) CHECK(failures_on_gpus("rank: not all on GPUs", size) == "");
}

TEST_CASE("rank: nan among GPUs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const CollectiveOp reduction : {CollectiveOp::max, CollectiveOp::min, CollectiveOp::sum})
      for (int guilty = 0; guilty < world.size; ++guilty) {
        const double mine = world.rank == guilty ? std::numeric_limits<double>::quiet_NaN() : 1;
        const Tensor x = full({100}, mine, {dtype, gpu_of(world)});
        group.all_reduce(x, reduction);
        for (const double number : x.to_vector<double>()) REQUIRE(std::isnan(number));
      }
}
TEST_CASE("GPU: a nan of one rank is not lost in a maximum" * on_several_gpus()) {
  for (const int size : {2, 3}) CHECK(failures_on_gpus("rank: nan among GPUs", size) == "");
}

TEST_CASE("rank: same bits on GPUs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const CollectiveOp reduction : {CollectiveOp::sum, CollectiveOp::mean}) {
      Generator generator(static_cast<uint64_t>(world.rank) + 1);
      const Tensor drawn = uniform({10000}, -1, 1, {}, generator);
      const Tensor x = untracked::cast(drawn, dtype).to(gpu_of(world));
      group.all_reduce(x, reduction);
      auto mine = x.to_vector<double>(), first = mine;
      group.broadcast(first);
      CHECK(mine == first);
    }
}
TEST_CASE("GPU: a reduction has the same bits on all GPUs" * on_several_gpus()) {
  CHECK(failures_on_gpus("rank: same bits on GPUs", 3) == "");
}

TEST_CASE("rank: without NCCL" * doctest::skip()) {
  const World world = launch_from_env();
  if (std::getenv("TEST_WITHOUT") && world.rank == 1) setenv("CUDA_ON_HOST_WITHOUT", "libnccl", 1);
  if (std::getenv("TEST_OLDER") && world.rank == 1) setenv("CUDA_ON_HOST_NCCL", "version=22703", 1);
  const Group group = world.group();
  run_drawn(group, gpu_of(world), 3, 20);
  if (world.size == 2) CHECK(group.backend() == "shm");  // of three ranks, two may use it
}
TEST_CASE("GPU: one rank without NCCL or with another, and all copy through the host" *
          on_played_gpus()) {
  CHECK(failures_on_gpus("rank: without NCCL", 3, {{"TEST_WITHOUT", "1"}}) == "");
  CHECK(failures_on_gpus("rank: without NCCL", 2, {{"TEST_OLDER", "1"}}) == "");
  CHECK(failures_on_gpus("rank: without NCCL", 2, {{"BOOSTER_BACKEND", "shm"}}) == "");
}
