// The op lists against the originals: dumps of PyTorch's dispatcher and of PaddlePaddle's lists,
// and Apex's published lists.
#include "mixed_precision/ops/op_table.h"

#include "mixed_precision/ops/op_policies.h"
#include "tests/capture_part.h"
#include "tests/mixed_precision/golden_lines.h"

#include <doctest/doctest.h>

#include <set>

using namespace booster;
using booster::testing::golden_lines;

namespace {

using Set = std::set<std::string>;

Set names_in(const OpTable& table) {
  Set names;
  for (const ListedOp& op : table.ops()) {
    const std::string overload = op.overload.empty() ? "" : "." + op.overload;
    if (!op.is_composed()) names.insert(op.name + overload);
  }
  return names;
}

Set golden_names(const std::string& file) {
  Set names;
  for (const auto& words : golden_lines(file)) names.insert(words[0]);
  return names;
}

// Returns Paddle's ops that our rules put on a white or a black list.
Set paddle_ops(PaddleLevel level, DType lower, std::string_view colour) {
  const PaddleRules rules(level, lower);
  Set names;
  for (const ListedOp& op : paddle_op_table().ops())
    if (rules.list_of(op.name).find(colour) != std::string_view::npos) names.insert(op.name);
  return names;
}

Set golden_paddle(const std::string& dtype, const std::string& level, const std::string& colour) {
  Set names;
  for (const auto& words : golden_lines("paddle_lists.txt"))
    if (words[0] == dtype && words[1] == level && words[2] == colour) names.insert(words[3]);
  return names;
}

OpClass class_of(const OpTable& table, const char* name) {
  const ListedOp* op = table.find(name);
  return op ? op->op_class : OpClass::untouched;
}

}  // namespace

TEST_CASE("torch's tables hold exactly the ops that its dispatcher has registered") {
  CHECK(names_in(torch_op_table(DeviceType::cpu)) == golden_names("autocast_cpu.txt"));
  CHECK(names_in(torch_op_table(DeviceType::cuda)) == golden_names("autocast_cuda.txt"));
}

TEST_CASE("Apex's table holds the published lists by place") {
  std::set<std::pair<std::string, std::string>> ours, golden;
  for (const ListedOp& op : apex_op_table().ops())
    if (!op.list.starts_with("rnn")) ours.emplace(op.list, op.name);
  for (const auto& words : golden_lines("apex_o1.txt"))
    golden.emplace(words[0] + " " + words[1], words[2]);
  CHECK(ours == golden);
}

TEST_CASE("Paddle's lists at each level and dtype are the package's own") {
  const std::pair<PaddleLevel, const char*> levels[] = {
      {PaddleLevel::OD, "OD"}, {PaddleLevel::O1, "O1"}, {PaddleLevel::O2, "O2"}};
  const std::pair<DType, const char*> dtypes[] = {{DType::f16, "float16"},
                                                  {DType::bf16, "bfloat16"}};
  for (const auto& [level, level_name] : levels) {
    for (const auto& [dtype, dtype_name] : dtypes) {
      CAPTURE_PART(level_name);
      CAPTURE_PART(dtype_name);
      for (const char* colour : {"white", "black"})
        CHECK(paddle_ops(level, dtype, colour) == golden_paddle(dtype_name, level_name, colour));
    }
  }
  Set gray;
  for (const ListedOp& op : paddle_op_table().ops())
    if (op.list == "gray static") gray.insert(op.name);
  CHECK(gray == golden_paddle("static", "-", "gray"));
}

TEST_CASE("CPU and CUDA differ as the two columns of torch's documentation say") {
  const OpTable &cuda = torch_op_table(DeviceType::cuda), &cpu = torch_op_table(DeviceType::cpu);
  CHECK(class_of(cuda, "binary_cross_entropy") == OpClass::banned);
  CHECK(class_of(cpu, "binary_cross_entropy") == OpClass::fp32);
  CHECK(class_of(cuda, "softmax") == OpClass::fp32_result);
  CHECK(class_of(cpu, "softmax") == OpClass::untouched);
  CHECK(class_of(cuda, "cat") == OpClass::untouched);
  CHECK(class_of(cpu, "cat") == OpClass::widest);
  CHECK(class_of(cuda, "mv") == OpClass::lower_precision);
  CHECK(class_of(cpu, "mv") == OpClass::untouched);
  CHECK(class_of(cuda, "scatter_add") == OpClass::widest);
  CHECK(class_of(cpu, "fft_fft") == OpClass::fp32);
}

TEST_CASE("Apex's policy follows its lists, and registered functions have the last word") {
  const OpPolicy plain = apex_o1_policy(DeviceType::cpu);
  CHECK(plain[Op::matmul] == OpClass::lower_precision);
  CHECK(plain[Op::gelu] == OpClass::fp32);
  CHECK(plain[Op::add] == OpClass::widen_pair);
  CHECK(plain[Op::cat] == OpClass::widen_list);
  CHECK(plain[Op::mean] == OpClass::untouched);
  CHECK(plain[Op::binary_cross_entropy] == OpClass::banned_lower);
  const OpPolicy registered = apex_o1_policy(
      DeviceType::cpu, {.half = {"gelu"}, .floating = {"matmul"}, .promote = {"relu", "exp"}});
  CHECK(registered[Op::gelu] == OpClass::lower_precision);
  CHECK(registered[Op::matmul] == OpClass::fp32);
  CHECK(registered[Op::relu] == OpClass::widen_pair);
  CHECK(registered[Op::exp] == OpClass::fp32);
  CHECK_THROWS_WITH_AS(apex_o1_policy(DeviceType::cpu, {.half = {"gelo"}}),
                       doctest::Contains("did you mean gelu?"), Error);
  CHECK_THROWS_AS(apex_o1_policy(DeviceType::cpu, {.half = {"exp"}, .floating = {"exp"}}), Error);
}

TEST_CASE("Paddle's policy at each level") {
  const OpPolicy o1 = paddle_policy(PaddleLevel::O1, DType::f16);
  CHECK(o1[Op::matmul] == OpClass::lower_precision);
  CHECK(o1[Op::softmax] == OpClass::fp32);
  CHECK(o1[Op::embedding] == OpClass::fp32);
  CHECK(o1[Op::add] == OpClass::lower_unless_fp32);
  CHECK(o1[Op::batch_norm] == OpClass::lower_unless_first_fp32);
  CHECK_FALSE(o1.cache_casts);
  const OpPolicy o2 = paddle_policy(PaddleLevel::O2, DType::f16);
  CHECK(o2[Op::softmax] == OpClass::lower_unless_fp32);
  CHECK(o2[Op::layer_norm] == OpClass::lower_unless_first_fp32);
  CHECK(o2[Op::embedding] == OpClass::fp32);
  const OpPolicy old = paddle_policy(PaddleLevel::O2, DType::f16, {.use_promote = false});
  CHECK(old[Op::relu] == OpClass::lower_precision);
  CHECK(old[Op::batch_norm] == OpClass::lower_first);
  CHECK(old[Op::embedding] == OpClass::fp32);
  const OpPolicy od = paddle_policy(PaddleLevel::OD, DType::f16);
  CHECK(od[Op::linear] == OpClass::lower_precision);
  CHECK(od[Op::add] == OpClass::fp32);
  CHECK(paddle_policy(PaddleLevel::O0, DType::f16)[Op::matmul] == OpClass::untouched);
}

TEST_CASE("Paddle's custom lists move ops, and names that mean nothing are errors") {
  const PaddleRules rules(PaddleLevel::O1, DType::f16,
                          {.white = {"elementwise_add"}, .black = {"matmul_v2", "p_norm"}});
  CHECK(rules.class_of("elementwise_add") == OpClass::lower_precision);
  CHECK(rules.class_of("matmul_v2") == OpClass::fp32);
  CHECK(rules.class_of("p_norm") == OpClass::fp32);
  const auto made = [](PaddleLists lists) { PaddleRules(PaddleLevel::O1, DType::f16, lists); };
  CHECK_THROWS_WITH_AS(made({.white = {"softmax"}, .black = {"softmax"}}),
                       doctest::Contains("softmax is on custom_black_list too"), Error);
  CHECK_THROWS_WITH_AS(made({.white = {"add"}, .black = {}}),
                       doctest::Contains("did you mean elementwise_add?"), Error);
  CHECK_THROWS_WITH_AS(made({.white = {"linear"}, .black = {}}),
                       doctest::Contains("did you mean linear_v2?"), Error);
  // Names on Paddle's own lists that nothing looks up.
  made({.white = {"matmul"}, .black = {"pnorm"}});
  CHECK(ineffective_names({.white = {"matmul", "exp"}, .black = {"pnorm"}}) ==
        std::vector<std::string>{"matmul", "pnorm"});
  CHECK_THROWS_WITH_AS(made({.white = {}, .black = {"sofmax"}}),
                       doctest::Contains("did you mean softmax?"), Error);
  CHECK(paddle_level("o2") == PaddleLevel::O2);
  CHECK_THROWS_WITH_AS(paddle_level("O3"), doctest::Contains("want one of O0, OD, O1, O2"), Error);
}
