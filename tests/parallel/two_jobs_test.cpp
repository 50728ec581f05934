// Ranks started by hand: two jobs at one MASTER_PORT never mix, and leave nothing.
#include <doctest/doctest.h>

#include "parallel/mesh.h"
#include "tests/draws.h"
#include "tests/parallel/by_hand.h"
#include "tests/tools/run/run_tool.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

using namespace booster;
namespace fs = std::filesystem;

namespace {

int variable(const char* name) { return std::atoi(std::getenv(name)); }

// Returns the text that a rank printed after `mark`, up to the end of the line.
std::string said(const RankResult& result, const std::string& mark) {
  const size_t at = result.output.find(mark);
  if (at == std::string::npos) return "";
  const size_t begin = at + mark.size();
  return result.output.substr(begin, result.output.find('\n', begin) - begin);
}

}  // namespace

// After some common work, prints "jobs: 3 3": the TEST_JOB of every rank in its group.
TEST_CASE("rank: works with its job" * doctest::skip()) {
  try {
    const World world = launch_from_env();
    const Group group = world.group();
    std::vector<int32_t> own = {variable("TEST_JOB")}, all(group.size());
    group.all_gather(all, own);
    nap(variable("TEST_WORK_MS"));
    std::vector<float> data(5000, 1);
    for (int i = 0; i < 20; ++i) group.all_reduce(data, CollectiveOp::mean);
    group.all_gather(all, own);
    std::string text;
    for (const int32_t job : all) text += " " + std::to_string(job);
    fmt::print("jobs:{}\n", text);
  } catch (const Error& error) {
    fmt::print("refused: {}\n", error.what());
  }
}

namespace {

struct Try {
  ByHand processes{"rank: works with its job"};
  std::vector<int> jobs, ranks;  // by process
  bool alike = false;            // the jobs have one command line

  void start(std::mt19937& random) {
    alike = draw(random, 0, 3) == 0;
    const int size = draw(random, 2, 3), other_size = alike ? size : draw(random, 2, 3);
    std::vector<std::pair<int, int>> order;  // job, rank
    for (int rank = 0; rank < size; ++rank) order.push_back({0, rank});
    for (int rank = 0; rank < other_size; ++rank) order.push_back({1, rank});
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& [job, rank] : order) {
      ByHand::Rank process{.rank = rank, .size = job == 0 ? size : other_size};
      process.delay_ms = draw(random, 0, 1) * draw(random, 0, 1500);
      process.environment = {{"TEST_JOB", std::to_string(job)},
                             {"TEST_WORK_MS", std::to_string(draw(random, 0, 300))},
                             {"BOOSTER_TIMEOUT", "15"}};
      if (!alike) process.arguments = {"--seed=" + std::to_string(job)};
      processes.start(process);
      jobs.push_back(job);
      ranks.push_back(rank);
    }
  }

  // Returns what went wrong, or "".
  std::string judge() {
    const auto results = processes.wait();
    int right = 0;
    std::string told;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string group = said(results[i], "jobs:"), error = said(results[i], "refused: ");
      told += fmt::format("job {} rank {}:{} {}\n", jobs[i], ranks[i], group, error);
      if (results[i].status != 0 || (group.empty() && error.empty())) return told + "silent";
      const char other = jobs[i] == 0 ? '1' : '0';
      if (!alike && contains(group, std::string(1, other))) return told + "mixed";
      const bool clear = contains(error, "another job meets in ") ||
                         contains(error, "is already taken by pid ") ||
                         contains(error, "rank 0 did not arrive at ") ||
                         contains(error, "missing: rank ") || contains(error, "has ended while");
      if (group.empty() && !clear) return told + "unclear";
      right += !group.empty();
    }
    return right >= 2 ? "" : told + "nobody came to work";
  }
};

}  // namespace

TEST_CASE("two jobs at one MASTER_PORT end right or with an error that says why, and never mix") {
  // Many at once, because most of a try is waiting.
  std::vector<std::unique_ptr<Try>> tries;
  for (const unsigned seed : testing::draws(132)) {
    std::mt19937 random(seed);
    tries.emplace_back(std::make_unique<Try>())->start(random);
  }
  for (auto& attempt : tries) CHECK(attempt->judge() == "");
}

namespace {

// Returns the error of the second process, which arrives where the first one, rank 0, waits.
std::string told_beside(ByHand::Rank first, ByHand::Rank second) {
  ByHand processes("rank: works with its job");
  for (ByHand::Rank* rank : {&first, &second}) {
    rank->environment.insert({{"TEST_JOB", "0"}, {"TEST_WORK_MS", "0"}, {"BOOSTER_TIMEOUT", "8"}});
    processes.start(*rank);
    while (!fs::exists(processes.meeting_place() + "/leader")) nap(2);
  }
  return said(processes.wait_for(1), "refused: ");
}

}  // namespace

TEST_CASE("the error of a rank at another job's place names both jobs and what to do") {
  const std::string told =
      told_beside({0, 2, {}, {"--seed=1"}}, {1, 3, {}, {"--seed=2", "--name=\x1b[2J"}});
  CAPTURE(told);
  CHECK(contains(told, "rendezvous: another job meets in "));
  CHECK(contains(told, "rank 0 (pid "));
  CHECK(contains(told, ") belongs to 2 ranks of "));
  CHECK(contains(told, " --seed=1 in "));
  CHECK(contains(told, "; this is rank 1 of 3 ranks of "));
  CHECK(contains(told, " --seed=2 --name=\\x1b[2J in "));
  CHECK(contains(told, "; want a MASTER_PORT for each job, or one BOOSTER_JOB for all ranks"));
}

TEST_CASE("a rank that is taken twice is refused and the other named") {
  const std::string told = told_beside({0, 2, {}, {}}, {0, 2, {}, {}});
  CHECK(contains(told, "rank 0 of 2 ranks of "));
  CHECK(contains(told, " is already taken by pid "));
  ByHand processes("rank: works with its job");
  for (const int rank : {0, 1, 1})
    processes.start({rank,
                     3,
                     {{"TEST_JOB", "0"}, {"TEST_WORK_MS", "0"}, {"BOOSTER_TIMEOUT", "8"}},
                     {},
                     0});
  const auto results = processes.wait();
  const std::string one = said(results[1], "refused: "), two = said(results[2], "refused: ");
  CHECK(contains(one, "is already taken by pid ") != contains(two, "is already taken by pid "));
}

TEST_CASE("BOOSTER_JOB says which ranks belong together, whatever their command lines say") {
  const auto named = [](const char* name) {
    return std::map<std::string, std::string>{{"BOOSTER_JOB", name}};
  };
  CHECK(told_beside({0, 2, named("a"), {"x"}}, {1, 2, named("a"), {"y"}}) == "");
  const std::string told = told_beside({0, 2, named("a"), {}}, {1, 2, named("b"), {}});
  CHECK(contains(told, " belongs to 2 ranks of job a; this is rank 1 of 2 ranks of job b; want "));
}

TEST_CASE("arguments that only say which rank this is do not tell jobs apart") {
  CHECK(told_beside({0, 2, {}, {"--local_rank=0", "--rank", "0"}},
                    {1, 2, {}, {"--local-rank=1", "--rank", "1"}}) == "");
  CHECK(told_beside({0, 2, {}, {"--rank_seed=0"}}, {1, 2, {}, {"--rank_seed=1"}}) != "");
}
