// The doctor's parts separately: statistics, the tensor checker's lines, advice on matrix
// units.
#include "booster/numerics/findings.h"
#include "booster/numerics/matrix_units.h"
#include "booster/numerics/tensor_checker.h"
#include "platform/error.h"
#include "tests/booster/numerics/diagnosed.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace booster;
using namespace booster::numerics;
using booster::test::infinity;
using doctest::Contains;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

Tensor floats(const std::vector<float>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

// Returns the advice on one call of an op.
std::vector<Finding> advice(Op op, std::vector<Tensor> arguments) {
  MatrixUnits units;
  std::vector<Tensor*> handles;
  for (Tensor& x : arguments) handles.push_back(&x);
  units.see(op, "layer", handles);
  Findings findings;
  units.add_to(findings, 1);
  return findings.list();
}

}  // namespace

TEST_CASE("statistics count what is not finite, zero, and outside the range of f16") {
  const Statistics s = statistics_of(floats({0, -1, 65519.9f, 65520, 0x1p-25f, 0x1.8p-25f, 3}));
  CHECK(s.numel == 7);
  CHECK(s.zeros == 1);
  CHECK(s.finite());
  CHECK(s.max == 65520);
  CHECK(s.min == -1);
  CHECK(s.above_f16 == 1);  // 65519.9 rounds to 65504
  CHECK(s.below_f16 == 1);  // 1.5 x 2^-25 rounds to 2^-24
  CHECK(is_finite(floats({1, 2})));
  CHECK_FALSE(is_finite(floats({1, not_a_number})));
  CHECK(is_finite(untracked::transpose(ones({3, 2}), 0, 1)));
}

TEST_CASE("extremes are running comparisons: a nan in first place stays") {
  const auto f = [](double x) { return static_cast<float>(x); };
  const Statistics first = statistics_of(floats({not_a_number, 1, f(-infinity)}));
  CHECK(std::isnan(first.max));
  CHECK(std::isnan(first.min));
  const Statistics later = statistics_of(floats({1, not_a_number, f(-infinity)}));
  CHECK(later.max == 1);
  CHECK(later.min == -infinity);
  CHECK(std::isnan(later.mean));
  CHECK(later.nans == 1);
  CHECK(later.infs == 1);
}

TEST_CASE("a unit in the last place is that of the number's binade") {
  CHECK(unit_in_last_place(1, DType::bf16) == 0x1p-7);
  CHECK(unit_in_last_place(1, DType::f16) == 0x1p-10);
  CHECK(unit_in_last_place(-1.99, DType::f16) == 0x1p-10);
  CHECK(unit_in_last_place(2048, DType::f16) == 2);
  CHECK(unit_in_last_place(1e-7, DType::f16) == 0x1p-24);
  CHECK(unit_in_last_place(0, DType::bf16) == 0x1p-133);
}

TEST_CASE("a line of the tensor checker has Paddle's form") {
  const Tensor x = floats({static_cast<float>(-infinity), 0});
  CHECK(precision_line("log", "", x, statistics_of(x)) ==
        "[PRECISION] [ERROR] in [device=cpu, op=log, tensor=, dtype=fp32], numel=2, num_nan=0, "
        "num_inf=1, num_zero=1, max=0.000000e+00, min=-inf, mean=-inf");
  const Tensor y = untracked::cast(floats({1, 3}), DType::bf16);
  CHECK(precision_line("relu", "head", y, statistics_of(y)) ==
        "[PRECISION] in [device=cpu, op=relu, tensor=head, dtype=bf16], numel=2, num_zero=0, "
        "max=3.000000e+00, min=1.000000e+00, mean=2.000000e+00");
}

TEST_CASE("each mode of the tensor checker writes what it says") {
  const TemporaryFolder folder;
  const Tensor good = floats({1}), large = floats({70000}), bad = floats({not_a_number});
  for (const auto& [mode, lines] :
       std::vector<std::pair<CheckMode, int64_t>>{{CheckMode::none, 0},
                                                  {CheckMode::report, 1},
                                                  {CheckMode::range, 2},
                                                  {CheckMode::all, 3}}) {
    TensorChecker checker({.mode = mode, .file = folder / "worker_cpu"});
    for (const Tensor& x : {good, large, bad}) checker.see("op", "", x);
    checker.see("op", "", ones({2}, {.dtype = DType::i64}));
    CHECK(checker.lines() == lines);
    CHECK(checker.bad_lines() == (lines > 0 ? 1 : 0));
  }
  TensorChecker checker({.mode = CheckMode::abort, .file = folder / "worker_cpu"});
  checker.begin_step(7);
  checker.see("op", "", large);
  CHECK_THROWS_WITH_AS(checker.see("log", "", bad), Contains("step 7: log gave 1 nan and 0 inf"),
                       Error);
  CHECK(folder.read("worker_cpu").starts_with("[STEP] 7\n[PRECISION] [ERROR] in [device=cpu"));
}

TEST_CASE("lists say which ops are checked, and names that never ran are told") {
  const TemporaryFolder folder;
  TensorChecker checker({.mode = CheckMode::all,
                         .checked_ops = {"linear", "relue"},
                         .skipped_ops = {"cast"},
                         .file = folder / "lines"});
  for (const char* op : {"linear", "relu", "cast"}) checker.see(op, "", ones({1}));
  CHECK(checker.lines() == 1);
  CHECK(checker.names_never_seen() == std::vector<std::string>{"relue"});
  CHECK_THROWS_WITH_AS(
      TensorChecker({.mode = CheckMode::all, .checked_ops = {"relu"}, .skipped_ops = {"relu"}}),
      Contains("is on both lists"), Error);
  CHECK_THROWS_WITH_AS(check_mode("reprot"), Contains("did you mean report?"), Error);
}

TEST_CASE("sizes that matrix units do not like are told with the padding and its cost") {
  const auto good = advice(Op::linear, {ones({16, 64}), ones({32, 64})});
  CHECK(good.empty());
  const auto bad = advice(Op::linear, {ones({16, 64}), ones({101, 64})});
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].pitfall == Pitfall::awkward_sizes);
  CHECK(bad[0].object == "layer (linear)");
  CHECK(bad[0].text.find("N = 101 (want 104)") != std::string::npos);
  CHECK(bad[0].text.find("padding adds 3.0 %") != std::string::npos);
  CHECK(bad[0].numbers["flop_share"] == 1);
}

TEST_CASE("a first convolution wants four channels, others multiples of 8, images as NHWC") {
  const auto first = advice(Op::conv2d, {ones({1, 3, 8, 8}), ones({16, 3, 3, 3})});
  REQUIRE(first.size() == 2);
  CHECK(first[0].text.find("3 input channels in a first layer (want 4)") != std::string::npos);
  CHECK(first[1].object == "layout");
  const auto later = advice(Op::conv2d, {ones({1, 12, 8, 8}), ones({20, 12, 3, 3})});
  CHECK(later[0].text.find("output channels = 20 (want 24)") != std::string::npos);
  CHECK(later[0].text.find("input channels = 12 (want 16)") != std::string::npos);
}

TEST_CASE("fp8 wants multiples of 16") {
  MatrixUnits units;
  units.see_fp8("head", ones({16, 24}), ones({32, 24}));
  Findings findings;
  units.add_to(findings, 1);
  REQUIRE(findings.list().size() == 1);
  CHECK(findings.list()[0].pitfall == Pitfall::awkward_fp8_sizes);
  CHECK(findings.list()[0].text.find("K = 24 (want 32)") != std::string::npos);
}

TEST_CASE("the catalogue has 40 pitfalls in order, each with a remedy") {
  for (int number = 1; number <= 40; ++number) {
    const PitfallEntry& entry = entry_of(static_cast<Pitfall>(number));
    CHECK(number_of(entry.pitfall) == number);
    CHECK(std::string(entry.remedy).size() > 10);
  }
  CHECK_THROWS_WITH_AS(entry_of(Pitfall::none), Contains("has no entry"), Error);
}
