// What ranks with one GPU each see if one dies, an operation never ends, or NCCL fails.
#include "tests/error_of.h"
#include "tests/parallel/gpu/gpu_ranks.h"
#include "tests/tools/run/failed_runs.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

using namespace booster;

namespace {

// A group that is connected with NCCL and has a short timeout.
struct Connected {
  World world = launch_from_env();
  Group group;
  Tensor x;
  std::chrono::steady_clock::time_point since;

  explicit Connected(const char* seconds) {
    const Group met = world.group();
    met.barrier();
    setenv("BOOSTER_TIMEOUT", seconds, 1);
    group = met.subgroup(met.world_ranks());
    x = ones({2000}, {.device = gpu_of(world)});
    group.all_reduce(x);
    CHECK(x.to_vector<double>() == std::vector<double>(2000, world.size));
    CHECK(group.backend() == "nccl");
    since = std::chrono::steady_clock::now();
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  }
};

// Waits until another rank has touched the file, at most half a minute.
bool appears(const std::string& name) {
  for (int i = 0; i < 15000 && !std::filesystem::exists(test_folder() + "/" + name); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return std::filesystem::exists(test_folder() + "/" + name);
}

// Makes the emulated NCCL fail like this from now on.
void play(const char* how) { setenv("CUDA_ON_HOST_NCCL", how, 1); }

}  // namespace

TEST_CASE("rank: a GPU hangs" * doctest::skip()) {
  Connected ranks("2");
  if (ranks.world.rank == 1) play("stuck=2");
  const Work work = ranks.group.all_reduce_async(ranks.x);
  work.wait();  // does not wait for the GPU
  const std::string error = failure_of([&] { ranks.x.to_vector<double>(); });
  CAPTURE(error);
  CHECK(contains(error, "the values on this GPU are lost"));
  CHECK(contains(error, "the GPUs did not complete it within 2 s (BOOSTER_TIMEOUT)"));
  CHECK(contains(failure_of([&] { work.synchronize(); }), "BOOSTER_TIMEOUT"));
  const std::string later = failure_of([&] { ranks.group.barrier(); });
  CAPTURE(later);
  CHECK(contains(later, "all_reduce: "));
  CHECK(ranks.seconds() < 20);
}
TEST_CASE("GPU: what never ends on a GPU ends at the timeout, and its numbers cannot be read" *
          on_played_gpus()) {
  CHECK(failures_on_gpus("rank: a GPU hangs", 2) == "");
  CHECK(failures_on_gpus("rank: a GPU hangs", 3) == "");
}

TEST_CASE("rank: NCCL fails" * doctest::skip()) {
  Connected ranks("30");
  if (ranks.world.rank == 1) play("operation=2");
  const std::string error = failure_of([&] {
    ranks.group.all_reduce(ranks.x);  // may learn of the failure before it begins
    ranks.x.to_vector<double>();
  });
  CAPTURE(error);
  CHECK(contains(error, "NCCL: remote process exited or there was a network error"));
  CHECK(contains(failure_of([&] { ranks.group.all_reduce(ranks.x); }), "all_reduce: "));
  if (ranks.world.rank != 1) CHECK(contains(error, "rank 1 (pid "));
  CHECK(ranks.seconds() < 20);
}
TEST_CASE("GPU: an error of NCCL reaches all ranks, who name the one that had it" *
          on_played_gpus()) {
  CHECK(failures_on_gpus("rank: NCCL fails", 3) == "");
}

TEST_CASE("rank: NCCL does not connect" * doctest::skip()) {
  const World world = launch_from_env();
  const Group met = world.group();
  met.barrier();
  setenv("BOOSTER_TIMEOUT", "2", 1);
  const Group group = met.subgroup(met.world_ranks());
  const std::string how = std::getenv("TEST_HOW");
  if (world.rank == 1) play(how.c_str());
  const Tensor x = ones({10}, {.device = gpu_of(world)});
  const std::string error = failure_of([&] { group.all_reduce(x); });
  CAPTURE(error);
  if (how == "absent") {
    CHECK(contains(error, "NCCL did not connect all ranks within 2 s (BOOSTER_TIMEOUT)"));
  } else {
    CHECK(contains(error, "unhandled system error"));
    if (world.rank != 1) CHECK(contains(error, "rank 1 (pid "));
  }
}
TEST_CASE("GPU: NCCL that cannot connect is an error on all ranks" * on_played_gpus()) {
  CHECK(failures_on_gpus("rank: NCCL does not connect", 3, {{"TEST_HOW", "connect"}}) == "");
  CHECK(failures_on_gpus("rank: NCCL does not connect", 2, {{"TEST_HOW", "absent"}}) == "");
}

TEST_CASE("rank: reduces on GPUs until somebody dies" * doctest::skip()) {
  Connected ranks("60");
  touch("ready-" + std::to_string(ranks.world.rank));
  const std::string error = failure_of([&] {
    for (;;) {
      ranks.group.all_reduce(ranks.x, CollectiveOp::max);
      ranks.group.all_reduce(ranks.x, CollectiveOp::mean);
      ranks.x.to_vector<double>();
    }
  });
  CAPTURE(error);
  CHECK(contains(error, "rank 1 (pid "));
  CHECK(contains(failure_of([&] { ranks.group.barrier(); }), "rank 1 (pid "));
}
TEST_CASE("GPU: a rank that dies is named by the others, and their GPUs go on" *
          on_several_gpus()) {
  for (const char* checked : {"1", "0"}) {
    CAPTURE(std::string(checked));
    if (most_gpus() < 3) break;
    Ranks ranks("rank: reduces on GPUs until somebody dies", 3,
                {{"CUDA_ON_HOST_DEVICES", "3"}, {"BOOSTER_CHECK_COLLECTIVES", checked}});
    for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(ranks.pid(1), SIGKILL);
    const auto results = ranks.wait(60);
    CHECK(failures({results[0], results[2]}) == "");
  }
}

// Rank 2 shares rank 0's GPU, so its data goes through the host.
TEST_CASE("rank: a copy behind a GPU that hangs" * doctest::skip()) {
  const World world = launch_from_env();
  const Group met = world.group();
  met.barrier();
  setenv("BOOSTER_TIMEOUT", "3", 1);
  const Group group = met.subgroup(met.world_ranks());
  const Tensor a = ones({100}, {.device = Device::cuda(world.rank % 2)}),
               b = a.clone();
  if (world.rank == 0 && std::getenv("TEST_HOW")) play("stuck=1");
  const auto exchange = [&] {
    if (world.rank != 0) return group.send_async(a, 0).synchronize();
    const Work from_1 = group.receive_async(a, 1);
    from_1.wait();
    group.receive(b, 2);
    group.barrier();
  };
  if (!std::getenv("TEST_HOW")) {
    if (world.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    exchange();
    if (world.rank != 0) group.barrier();
    CHECK(b.to_vector<double>() == std::vector<double>(100, 1));
  } else {
    const std::string error = failure_of([&] {
      exchange();
      group.barrier();
      a.to_vector<double>();
    });
    CAPTURE(error);
    CHECK(contains(error, "(BOOSTER_TIMEOUT)"));
  }
}
TEST_CASE("GPU: ranks that share a GPU and ranks that do not exchange messages in turn" *
          on_played_gpus()) {
  const std::string name = "rank: a copy behind a GPU that hangs";
  std::map<std::string, std::string> environment = {{"CUDA_ON_HOST_DEVICES", "2"}};
  CHECK(failures(Ranks(name, 3, environment).wait(60)) == "");
  environment["TEST_HOW"] = "stuck";
  CHECK(failures(Ranks(name, 3, environment).wait(60)) == "");
}

TEST_CASE("rank: GPUs disagree" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  const Tensor x = ones({100 + world.rank % 2}, {.device = gpu_of(world)});
  const std::string how = std::getenv("TEST_HOW");
  const std::string error = failure_of([&] {
    if (how == "count") group.all_reduce(x);
    if (how == "kind" && world.rank == 1) group.broadcast(x);
    if (how == "kind" && world.rank != 1) group.all_reduce(x);
    if (how == "message" && world.rank == 1) group.send(x, 0);
    if (how == "message" && world.rank == 0) group.receive(x, 1);
    if (how == "message" && world.rank == 2) group.barrier();
  });
  CAPTURE(error);
  if (how != "message") CHECK(contains(error, "the ranks call different collectives: "));
  if (how == "message" && world.rank == 0)
    CHECK(contains(error, "the ranks call different operations: "));
  CHECK(contains(error, how == "message" && world.rank != 0 ? "rank 0 (pid " : "rank 1: "));
}
TEST_CASE("GPU: ranks that call different things are told which" * on_several_gpus()) {
  for (const char* how : {"count", "kind", "message"}) {
    CAPTURE(std::string(how));
    CHECK(failures_on_gpus("rank: GPUs disagree", 3, {{"TEST_HOW", how}}) == "");
  }
}

TEST_CASE("rank: wants NCCL" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  const Tensor x = ones({10}, {.device = {DeviceType::cuda, 0}});
  const std::string error = failure_of([&] { group.all_reduce(x); });
  CAPTURE(error);
  CHECK(contains(error, "BOOSTER_BACKEND=nccl: rank 0 and rank 1 use the same GPU"));
}
TEST_CASE("rank: wants NCCL that is not there" * doctest::skip()) {
  const World world = launch_from_env();
  const std::string error = failure_of([&] { world.group(); });
  CAPTURE(error);
  CHECK(contains(error, "BOOSTER_BACKEND=nccl: NCCL is not available: libnccl.so.2: not found"));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // the other may still check this one
}
TEST_CASE("GPU: BOOSTER_BACKEND=nccl says why it cannot be" * on_played_gpus()) {
  CHECK(failures_on_gpus("rank: wants NCCL", 2, {{"BOOSTER_BACKEND", "nccl"}}) == "");
  CHECK(failures_on_gpus("rank: wants NCCL that is not there", 2,
                         {{"BOOSTER_BACKEND", "nccl"}, {"CUDA_ON_HOST_WITHOUT", "libnccl"}}) == "");
}

TEST_CASE("rank: leaves a group whose GPUs work" * doctest::skip()) {
  Connected ranks("60");
  const Tensor y = ranks.x.clone();
  {
    const Group brief = ranks.group.subgroup(ranks.group.world_ranks());
    brief.all_reduce(y);
    if (ranks.world.rank == 1) CHECK(appears("left-0"));
  }
  touch("left-" + std::to_string(ranks.world.rank));
  CHECK(y.to_vector<double>() == std::vector<double>(2000, ranks.world.size * ranks.world.size));
}
TEST_CASE("GPU: a group that is left completes what it began, and waits for nobody" *
          on_several_gpus()) {
  CHECK(failures_on_gpus("rank: leaves a group whose GPUs work", 2) == "");
}
