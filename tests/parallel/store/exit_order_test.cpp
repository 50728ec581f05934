// Ranks leave a store in any order. Rank 0, which runs it, serves the others until they have left.
#include "platform/error.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"
#include "tests/parallel/store/meeting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <numeric>
#include <random>
#include <stdexcept>

#include <unistd.h>

using namespace booster;
using doctest::Contains;
using std::chrono::seconds;

namespace {

std::string key_of(int rank) { return "of-" + std::to_string(rank); }

// The ranks of a run in one process that leave one after the other.
class Leaving {
 public:
  Leaving(int size, std::mt19937& random)
      : random_(random), ranks_(meet_all(free_endpoint(), size)), here_(ranks_.size()) {
    std::iota(here_.begin(), here_.end(), 0);
    for (auto& rank : ranks_) rank->wait_for(here_);
    for (const int rank : here_) of(rank).put(key_of(rank), "value of " + std::to_string(rank));
  }
  bool is_empty() const { return here_.empty(); }

  void let_one_leave() {
    std::swap(here_[below(here_.size())], here_.back());
    const int rank = here_.back();
    here_.pop_back();
    exits_.push_back(std::async(
        std::launch::async, [left = std::move(ranks_[index(rank)])]() mutable { left.reset(); }));
    // In half of the draws the others know that it is gone.
    if (rank != 0 && below(2) == 0) exits_.back().wait();
  }

  // Some of those that are still here read what others have put, some of which are gone.
  void read_some() {
    for (int i = 0; i < 3 && !here_.empty(); ++i) {
      const int reader = drawn_here(), owner = static_cast<int>(below(ranks_.size()));
      CAPTURE(reader);
      CAPTURE(owner);
      CHECK(of(reader).get(key_of(owner), {reader, owner}) == "value of " + std::to_string(owner));
      const std::string key = "later-" + std::to_string(++later_);
      const int writer = drawn_here();
      of(writer).put(key, key);
      CHECK(of(reader).get(key, {reader, writer}) == key);
    }
  }

  bool all_have_ended() {
    return std::ranges::all_of(exits_, [](const std::future<void>& exit) {
      return exit.wait_for(seconds(60)) == std::future_status::ready;
    });
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  StoreRendezvous& of(int rank) { return *ranks_[index(rank)]; }
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  int drawn_here() { return here_[below(here_.size())]; }

  std::mt19937& random_;
  MetRanks ranks_;
  std::vector<int> here_;  // ranks that have not left
  std::vector<std::future<void>> exits_;
  int later_ = 0;
};

}  // namespace

TEST_CASE("ranks leave a store in any order, and what they have put stays") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  for (const unsigned seed : testing::draws(110)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Leaving ranks(std::uniform_int_distribution(2, 5)(random), random);
    while (!ranks.is_empty()) {
      ranks.let_one_leave();
      ranks.read_some();
    }
    CHECK(ranks.all_have_ended());
  }
}

TEST_CASE("rank 0 that has left serves others, at most for BOOSTER_TIMEOUT") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!"), limit("BOOSTER_TIMEOUT", "5");
  auto ranks = meet_all(free_endpoint(), 3);
  for (auto& rank : ranks) rank->wait_for({0, 1, 2});
  auto exit =
      std::async(std::launch::async, [left = std::move(ranks[0])]() mutable { left.reset(); });
  CHECK(ranks[2]->trouble({1, 2}) == "");
  CHECK(exit.wait_for(seconds(60)) == std::future_status::ready);
  CHECK_THROWS_WITH_AS(ranks[2]->get("more", {1, 2}), Contains("rank 0 (pid "), Error);
  CHECK(ranks[2]->trouble({0}).find("has ended while other ranks still need it") !=
        std::string::npos);
}

TEST_CASE("rank 0 serves nobody once its work has failed") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  for (const bool reports : {true, false}) {
    CAPTURE(reports);
    auto ranks = meet_all(free_endpoint(), 2);
    for (auto& rank : ranks) rank->wait_for({0, 1});
    try {
      const auto left = std::move(ranks[0]);
      if (reports) left->report_failure("rank 0 gave up: no more flour");
      if (!reports) throw std::runtime_error("no more flour");
    } catch (const std::runtime_error&) {
    }
    CHECK_THROWS_WITH_AS(ranks[1]->get("more", {1}),
                         Contains(reports ? "no more flour" : "rank 0 (pid "), Error);
  }
}

TEST_CASE("rank: stays unless it is rank 0" * doctest::skip()) {
  const int rank = std::stoi(std::getenv("RANK"));
  {
    StoreRendezvous here(Endpoint::from(std::getenv("BOOSTER_RENDEZVOUS")), rank, 3, "job");
    here.wait_for({0, 1, 2});
    touch("ready-" + std::to_string(rank));
    while (rank != 0) pause();
  }
  touch("left-0");
}
TEST_CASE("a rank that has crashed or is silent does not keep rank 0") {
  const auto environment = over_store().with({{"BOOSTER_HEARTBEAT", "4"}});
  Ranks ranks("rank: stays unless it is rank 0", 3, environment);
  for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
  kill(ranks.pid(1), SIGKILL);
  kill(ranks.pid(2), SIGSTOP);
  ranks.wait_for_file("left-0");
  CHECK(std::filesystem::exists(ranks.folder() + "/left-0"));
  kill(ranks.pid(2), SIGKILL);
  CHECK(failures({ranks.wait()[0]}) == "");
}
