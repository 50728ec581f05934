// Numbers in text under a locale whose decimal point is a comma, such as German.
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/config/config.h"
#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "parallel/rendezvous/rank_notes.h"
#include "parallel/rendezvous/seconds.h"
#include "platform/decimal.h"
#include "platform/json/json_text.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tools/doctor/dump_compare.h"

#include <doctest/doctest.h>

#include <clocale>
#include <cstdlib>

using namespace booster;
using namespace booster::test;

namespace {

// Makes such a locale in a folder of its own, since none may be installed, and sets it.
class CommaLocale {
 public:
  explicit CommaLocale(const std::string& decimal_point = "<U002C>") {
    folder_.write("source", "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \"" +
                                decimal_point +
                                "\"\nthousands_sep \"<U002E>\"\ngrouping 3;3\nEND LC_NUMERIC\n");
    const std::string folder = folder_.path().string();
    // localedef warns about missing categories, and then exits with 1.
    std::ignore = std::system(("localedef -c -f UTF-8 -i '" + folder + "/source' '" + folder +
                               "/comma' >'" + folder + "/log' 2>&1")
                                  .c_str());
    ::setenv("LOCPATH", folder.c_str(), 1);
    is_set_ = std::setlocale(LC_ALL, "comma") != nullptr;
    if (!is_set_) MESSAGE("skipped: localedef makes no locale here: " << folder_.read("log"));
  }
  ~CommaLocale() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  CommaLocale(const CommaLocale&) = delete;
  bool is_set() const { return is_set_; }

 private:
  TemporaryFolder folder_;
  bool is_set_ = false;
};

// A decimal point of two bytes, as in Persian.
constexpr const char* decimal_points[] = {"<U002C>", "<U066B>"};

}  // namespace

TEST_CASE("configs, checkpoints and metrics are read and written alike under a comma locale") {
  for (const char* decimal_point : decimal_points) {
    const CommaLocale comma(decimal_point);
    if (!comma.is_set()) return;
    REQUIRE(std::string(std::localeconv()->decimal_point) != ".");
    const Config config = Config::from_text(R"({"optimizer": {"name": "sgd", "lr": 2.5e-1}})");
    CHECK(config.get<double>("optimizer.lr") == 0.25);
    CHECK(config.with("optimizer.lr", 0.125).get<double>("optimizer.lr") == 0.125);

    const TemporaryFolder folder;
    CheckpointContents contents;
    contents.step = 1;
    contents.state = {{"scale", 0.5}, {"third", 1.0 / 3}, {"small", 1e-300}};
    CHECK(load_checkpoint(save_checkpoint(folder.path(), contents)).state == contents.state);

    folder.write("metrics.jsonl", "{\"step\": 1, \"loss\": 0.75}\n");
    const auto metrics = report::read_metrics(folder / "metrics.jsonl");
    REQUIRE(metrics.lines.size() == 1);
    CHECK(metrics.lines[0]["loss"].get<double>() == 0.75);
    CHECK(json_from("[0.5, 12345.678]").dump() == "[0.5,12345.678]");
  }
}

TEST_CASE("environment variables, notes of ranks and dumps have a dot under a comma locale") {
  const CommaLocale comma;
  if (!comma.is_set()) return;
  ::setenv("BOOSTER_TEST_SECONDS", "1.5", 1);
  CHECK(seconds_variable("BOOSTER_TEST_SECONDS", 10).count() == 1500);
  ::setenv("BOOSTER_TEST_SECONDS", "1,5", 1);
  CHECK_THROWS_WITH(seconds_variable("BOOSTER_TEST_SECONDS", 10),
                    doctest::Contains("BOOSTER_TEST_SECONDS: want seconds"));
  ::unsetenv("BOOSTER_TEST_SECONDS");
  CHECK(LongWait::from(LongWait{"rank 1", "all_reduce", 12.25}.text()).since == 12.25);
  const TemporaryFolder folder;
  folder.write("dump.log",
               "[PRECISION] in [device=cpu, op=add, tensor=out, dtype=f32], numel=4, num_zero=0, "
               "max=1.500000e+00, min=-2.5e-01, mean=+5.000000e-01\n");
  const auto lines = numerics::read_dump(folder / "dump.log");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].max == 1.5);
  CHECK(lines[0].min == -0.25);
  CHECK(lines[0].mean == 0.5);
}

TEST_CASE("a decimal number is the whole text, within the range of a double") {
  for (const char* text : {"0.5", "+0.5", "5e-1", ".5"}) CHECK(decimal_number(text) == 0.5);
  CHECK(decimal_number("-inf") == -INFINITY);
  for (const char* text : {"", "+", "+-1", "0,5", "0.5 ", " 0.5", "0x1", "1e999", "half"})
    CHECK_FALSE(decimal_number(text).has_value());
}
