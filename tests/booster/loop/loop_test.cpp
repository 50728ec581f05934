// Random sequences of a training loop's calls agree with the plain model of the loop, in every
// strategy, on one rank and on several.
//
// More sequences: TEST_SHARES=all LOOPS=20000 build/tests/booster_test -tc='*random loops*'
// A single one, as a failure prints it:
// LOOP='fp16| two|backward ...' build/tests/booster_test -tc='*this one*'.
#include "tests/booster/loop/real_loop.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"

#include "platform/error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>

using namespace booster;
using namespace booster::loop;

namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// Returns the n-th sequence of a strategy.
Sequence drawn(const std::string& strategy, unsigned n, int ranks) {
  std::seed_seq seed = {static_cast<int>(n), ranks,
                        static_cast<int>(std::hash<std::string>()(strategy))};
  std::mt19937 random(seed);
  Setup setup = {.strategy = strategy,
                 .two_models = random() % 2 == 0,
                 .views = random() % 3 != 0,
                 .finds_unused = random() % 4 == 0};
  if (ranks > 1 && !setup.finds_unused) setup.zero_stage = static_cast<int>(random() % 4);
  setup.late = (setup.zero_stage == 1 || setup.zero_stage == 2) && random() % 2 == 0;
  if (setup.zero_stage == 0) {
    setup.is_static = !setup.two_models && random() % 2 == 0;
    setup.sent_as = std::array{"", "", "fp16", "bf16"}[random() % 4];
  }
  return draw(random, setup, limits_of(strategy), ranks);
}

// Returns "" or what went wrong. Ranks end together, so that none removes the folder while others
// use it.
std::string play_safely(const Sequence& sequence, const World& world, const std::string& folder) {
  try {
    const std::string failure = play(sequence, world, folder);
    if (failure.empty()) world.group().barrier();
    return failure;
  } catch (const Error& error) {
    return error.what();
  }
}

// A folder for the checkpoints of one sequence.
class Scratch {
 public:
  explicit Scratch(const std::string& parent, unsigned n)
      : path_(parent + "/loop-" + std::to_string(n)) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string own_folder() {
  return fmt::format("/dev/shm/booster-loops-{}", static_cast<int>(getpid()));
}

constexpr const char* mark = "FAILED LOOP: ";

// Plays the sequences `numbers` of every strategy; prints the first that fails.
void play_drawn(std::span<const unsigned> numbers) {
  const World world = launch_from_env();
  const std::string parent = variable("TEST_FOLDER", own_folder());
  for (const std::string& strategy : strategies())
    for (const unsigned n : numbers) {
      const Sequence sequence = drawn(strategy, n, world.size);
      const Scratch scratch(parent, n);
      const std::string failure = play_safely(sequence, world, scratch.path());
      if (failure.empty()) continue;
      fmt::print("{}{}\n{}\n", mark, to_text(sequence), failure);
      std::fflush(stdout);
      REQUIRE(failure == "");
    }
}

// Returns how a sequence fails on `ranks` ranks, or "".
std::string failure_on(int ranks, const Sequence& sequence) {
  if (ranks == 1) {
    const Scratch scratch(own_folder(), 0);
    return play_safely(sequence, {}, scratch.path());
  }
  return failures(
      Ranks("rank: this one", ranks, {{"LOOP", to_text(sequence)}, {"BOOSTER_TIMEOUT", "5"}})
          .wait(20));
}

// Returns the shortest form of a failed sequence. Ranks that see another rank die print their own
// current sequence, which may be a later one.
std::string explained(int ranks, const std::string& output) {
  const std::string what = mark;
  for (size_t at = output.find(what); at != output.npos; at = output.find(what, at + 1)) {
    const size_t begin = at + what.size();
    const Sequence found = from_text(output.substr(begin, output.find('\n', begin) - begin));
    if (failure_on(ranks, found).empty()) continue;
    const Sequence small = shortest(
        found, [&](const Sequence& smaller) { return !failure_on(ranks, smaller).empty(); });
    return fmt::format("on {} ranks: {}\n{}", ranks, to_text(small), failure_on(ranks, small));
  }
  return fmt::format("on {} ranks, but not played alone:\n{}", ranks, output);
}

constexpr size_t sequences_per_start = 250;  // of each strategy

// Plays this run's share of `count` sequences of each strategy, in separate processes.
void check_loops(int ranks, unsigned count) {
  const size_t chosen = testing::draws(count).size();
  for (size_t first = 0; first < chosen; first += sequences_per_start) {
    const auto results =
        Ranks("rank: drawn loops", ranks,
              {{"LOOP_FIRST", std::to_string(first)}, {"LOOP_COUNT", std::to_string(count)}})
            .wait(3000);
    for (const RankResult& one : results)  // a rank that played nothing also exits with 0
      CHECK((!one.passed() || one.output.find("| 1 passed") != one.output.npos));
    const std::string output = failures(results);
    if (output.empty()) continue;
    FAIL_CHECK(explained(ranks, output));
    return;
  }
}

unsigned of_all(double share) {
  const double strategies_count = static_cast<double>(strategies().size());
  return static_cast<unsigned>(std::stod(variable("LOOPS", "1600")) * share / strategies_count) + 1;
}

}  // namespace

TEST_CASE("rank: drawn loops" * doctest::skip()) {
  const std::vector<unsigned> chosen =
      testing::draws(static_cast<unsigned>(std::stoi(variable("LOOP_COUNT", "10"))));
  const size_t first = std::stoul(variable("LOOP_FIRST", "0"));
  play_drawn(
      std::span(chosen).subspan(first, std::min(sequences_per_start, chosen.size() - first)));
}
TEST_CASE("rank: this one" * doctest::skip()) {
  const std::string text = variable("LOOP", "");
  if (text.empty()) return;
  const Scratch scratch(variable("TEST_FOLDER", own_folder()), 0);
  CHECK(play_safely(from_text(text), launch_from_env(), scratch.path()) == "");
}

TEST_CASE("random loops on one rank give what the plain model gives") {
  check_loops(1, of_all(0.6));
}
TEST_CASE("random loops on two ranks give what the plain model gives") {
  check_loops(2, of_all(0.25));
}
TEST_CASE("random loops on three ranks give what the plain model gives") {
  check_loops(3, of_all(0.15));
}

TEST_CASE("a sequence of calls and its text are the same") {
  for (unsigned n = 0; n < 200; ++n) {
    const std::string text = to_text(drawn("fp16", n, 3));
    CHECK(to_text(from_text(text)) == text);
  }
}
