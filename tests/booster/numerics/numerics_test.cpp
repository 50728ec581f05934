// The doctor's parts separately: statistics, the tensor checker's lines, comparison of dumps,
// advice on matrix units.
#include "booster/config/registry.h"
#include "booster/numerics/dump_compare.h"
#include "booster/numerics/findings.h"
#include "booster/numerics/matrix_units.h"
#include "booster/numerics/tensor_checker.h"
#include "booster/profile/gpu_capability.h"
#include "platform/error.h"
#include "tests/booster/numerics/diagnosed.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

using namespace booster;
using namespace booster::numerics;
using booster::test::infinity;
using doctest::Approx;
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

DumpLine line(const char* op, const char* tensor, const char* dtype, double max, double min,
              double mean) {
  DumpLine line;
  line.op = op;
  line.tensor = tensor;
  line.dtype = dtype;
  line.numel = 4;
  line.max = max;
  line.min = min;
  line.mean = mean;
  return line;
}

// Returns the growth of the process's peak memory during a call.
template <class Call>
long megabytes_for(Call&& call) {
  const auto megabytes = [](const std::string& row) {
    std::ifstream status("/proc/self/status");
    for (std::string text; std::getline(status, text);)
      if (text.starts_with(row)) return std::stol(text.substr(row.size())) / 1024;
    FAIL("no " << row);
    return 0L;
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak to the current size
  const long before = megabytes("VmRSS:");
  call();
  return megabytes("VmHWM:") - before;
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
      Contains("both to be checked and to be skipped"), Error);
  CHECK_THROWS_WITH_AS(check_mode("reprot"), Contains("did you mean report?"), Error);
}

TEST_CASE("a dump is read as it was written, and a damaged line is told by its number") {
  const TemporaryFolder folder;
  {
    TensorChecker checker({.mode = CheckMode::all, .file = folder / "worker_cpu"});
    checker.begin_step(3);
    checker.see("linear", "head", floats({1, -2}));
    checker.see("log", "", floats({not_a_number, 0}));
  }
  const auto lines = read_dump(folder / "worker_cpu");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].op == "linear");
  CHECK(lines[0].tensor == "head");
  CHECK(lines[0].step == 3);
  CHECK(lines[0].min == -2);
  CHECK(lines[1].nans == 1);
  CHECK(lines[1].zeros == 1);
  CHECK(std::isnan(lines[1].mean));
  CHECK(read_dump(folder.path()).size() == 2);
  folder.write("worker_cpu", "[STEP] 1\n[PRECISION] in [device=cpu, op=x]\n");
  CHECK_THROWS_WITH_AS(read_dump(folder.path()), Contains("worker_cpu:2: not a line of"), Error);
}

TEST_CASE("a dump's endless line takes no memory, and its file's name cannot deceive a terminal") {
  const TemporaryFolder folder;
  const auto endless = [&](const char* name, const char* begin) {
    folder.write(name, begin);
    std::filesystem::resize_file(folder / name, size_t{600} << 20);  // zeros, no line break
    return folder / name;
  };
  const auto dump = endless("a", "[STEP] 1\n[PRECISION] "), junk = endless("\x1b[31m", "junk");
  CHECK(megabytes_for([&] {
          CHECK_THROWS_WITH_AS(read_dump(dump), Contains("a:2: line too long; want at most 4096"),
                               Error);
          CHECK_THROWS_WITH_AS(read_dump(junk), Contains("\\x1b[31m: no line of the"), Error);
        }) < 64);
}

TEST_CASE("names in a dump reach the terminal without what could control it") {
  const DumpLine hostile = line("\x1b]0;x\x07linear", "a\tb\x7f", "fp32", 1, 1, 1);
  const DumpLine nameless = line("log", "", "fp32", 1, 1, 1);
  const Comparison result = compare_dumps({hostile, nameless}, {nameless});
  for (const std::string& shown : {result.text(true), result.csv()}) {
    CHECK(shown.find_first_of("\x1b\x07\t\x7f") == std::string::npos);
    CHECK(shown.find("\\x1b]0;x\\x07linear") != std::string::npos);
  }
}

TEST_CASE("ratios outside 0.95 to 1.05 are flagged, the loss scale taken out of gradients") {
  const std::vector<DumpLine> a = {line("linear", "head", "fp32", 1, -1, 0.5),
                                   line("linear_grad", "head.weight@GRAD", "fp32", 1, -1, 0.5)};
  std::vector<DumpLine> b = {line("linear", "head", "fp16", 1.04, -1, 0.5),
                             line("linear_grad", "head.weight@GRAD", "fp16", 1024, -1024, 512)};
  Comparison same = compare_dumps(a, b, 1024);
  CHECK(same.abnormal == 0);
  CHECK(same.flagged == 0);
  CHECK(same.rows[0].ratio[0] == Approx(1.04));
  CHECK(same.rows[1].ratio[0] == Approx(1024));
  CHECK(compare_dumps(a, b, 1).flagged == 1);
  CHECK(compare_dumps(a, b, 1).abnormal == 1);
  b[0].max = 1.06;
  const Comparison other = compare_dumps(a, b, 1024);
  CHECK(other.flagged == 1);
  CHECK(other.rows[0].off == std::array<bool, 3>{true, false, false});
  CHECK(other.text(false).find("1.06*") != std::string::npos);
}

TEST_CASE("a row is abnormal by any of the rules") {
  const DumpLine good = line("op", "x", "fp32", 1, -1, 0);
  const auto why = [&](DumpLine a, DumpLine b, double scale = 1) {
    return compare_dumps({a}, {b}, scale).rows[0].abnormal;
  };
  CHECK(why(good, good) == "");
  DumpLine large = good, many = good, bad = good;
  large.max = 65520;
  many.numel = int64_t{1} << 31;
  bad.infs = 1;
  CHECK(why(large, good) == "a is beyond f16");
  CHECK(why(many, good) == "more than 2^31 - 1 numbers");
  CHECK(why(good, bad) == "b has inf or nan");
  DumpLine gradient = line("op", "x@GRAD", "fp32", 1, -1, 0), off = gradient;
  off.max = 1.03;
  CHECK(why(gradient, off) == "gradients differ by more than 1 %");
  off.max = 1.015;  // within 0.01 + 1 %
  CHECK(why(gradient, off) == "");
  CHECK(why(gradient, gradient, 65536) == "a is beyond f16");
}

TEST_CASE("rows that only one dump has are told") {
  const DumpLine one = line("op", "x", "fp32", 1, 1, 1), two = line("other", "x", "fp32", 1, 1, 1);
  const Comparison result = compare_dumps({one, one}, {one, two});
  CHECK(result.rows.size() == 3);
  CHECK(result.unmatched == 2);
  CHECK(result.text(false).find("only in b") != std::string::npos);
  CHECK(result.to_json()["unmatched"] == 2);
  CHECK(result.csv().find("1,other,x") == std::string::npos);
  CHECK(result.csv().find("0,other,x,4") != std::string::npos);
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

TEST_CASE("pitfall 1: a GPU without units for a dtype is told with both capabilities") {
  CHECK_FALSE(capability_warning("fp16", "Tesla V100", {7, 0}));
  CHECK(
      *capability_warning("fp16", "Tesla K40m", {3, 5}) ==
      "fp16 is only fast on NVIDIA GPUs with compute capability 7.0 or higher; the current GPU is "
      "Tesla K40m, with compute capability 3.5");
  CHECK(capability_warning("bf16", "Tesla T4", {7, 5}));
  CHECK_FALSE(capability_warning("bf16", "A100", {8, 0}));
  CHECK(capability_warning("fp8", "A100", {8, 0}));
  CHECK_FALSE(capability_warning("fp8", "L40", {8, 9}));
  CHECK_FALSE(capability_warning("fp8", "H200", {9, 0}));
  CHECK(capability_warning("mxfp8", "H200", {9, 0}));
  CHECK_THROWS_WITH_AS(needed_capability("fp7"), Contains("did you mean"), Error);
  CHECK(capability_summary({8, 0}) ==
        "compute capability 8.0; matrix units for fp16, bf16; none for fp8 (needs 8.9), mxfp8 "
        "(needs 10.0)");
}

TEST_CASE("each strategy's products run where they are fast, or the way out is told") {
  const auto on = [](const char* capability, const char* strategy) {
    for (const StrategyOnGpu& row : strategies_on(parse_capability(capability)))
      if (row.strategy == strategy) return row;
    FAIL("no row for " << strategy);
    return StrategyOnGpu();
  };
  CHECK(on("7.5", "fp16_apex").fast);
  CHECK(on("7.5", "bf16").instead == "fp16");
  CHECK(on("6.1", "fp16").instead == "fp32");
  CHECK(on("8.0", "fp8").instead == "bf16");
  CHECK(on("8.9", "fp8").fast);
  CHECK_FALSE(on("12.0", "fp32").fast);
  CHECK(on("12.0", "fp32").instead == "");
  for (const StrategyOnGpu& row : strategies_on({9, 0}))
    CHECK_MESSAGE(precision_registry().get(row.strategy), row.strategy);
  for (const char* wrong :
       {"", "7", "7.", ".5", "7.5.1", "-7.5", "7.-5", "x", "7,5", " 7.5", "0.5"})
    CHECK_THROWS_WITH_AS(parse_capability(wrong), Contains("want MAJOR.MINOR"), Error);
}

TEST_CASE("the catalogue has 40 pitfalls in order, each with a remedy") {
  for (int number = 1; number <= 40; ++number) {
    const PitfallEntry& entry = entry_of(static_cast<Pitfall>(number));
    CHECK(number_of(entry.pitfall) == number);
    CHECK(std::string(entry.remedy).size() > 10);
  }
  CHECK_THROWS_WITH_AS(entry_of(Pitfall::none), Contains("has no entry"), Error);
}
