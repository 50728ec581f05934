// Comparison of the tensor checker's dumps.
#include "tools/doctor/dump_compare.h"

#include "booster/numerics/tensor_checker.h"
#include "platform/error.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

using namespace booster;
using namespace booster::numerics;
using doctest::Approx;
using doctest::Contains;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

Tensor floats(const std::vector<float>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
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
