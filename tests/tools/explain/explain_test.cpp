// The answers of `booster explain` against the results of PyTorch 2.15 and the recorded answers of
// Apex and PaddlePaddle.
#include "tools/explain/explain.h"

#include "mixed_precision/ops/op_table.h"
#include "platform/error.h"
#include "tests/mixed_precision/golden_lines.h"
#include "tools/explain/result_rules.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace booster;
using booster::testing::golden_lines;

namespace {

using Kernels = ResultRule::Kernels;

std::vector<std::string> words(const std::string& text, char between = ' ') {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, between);) result.push_back(word);
  return result;
}

// Returns "f16", "none" or "error".
std::string returned(const std::string& op, const std::string& dtypes, Question question) {
  question.op = op;
  question.dtypes = words(dtypes);
  const Explanation answer = explain(question);
  return answer.error.empty() ? answer.returns : "error";
}

std::string torch_fp16(const std::string& op, const std::string& dtypes) {
  return returned(op, dtypes, {.strategy = "fp16"});
}
std::string apex(const std::string& op, const std::string& dtypes) {
  return returned(op, dtypes, {.strategy = "fp16_apex"});
}

// Returns the number of answers that differ from PyTorch's.
int wrong_answers(const std::string& strategy, size_t column) {
  int wrong = 0;
  for (const auto& line : golden_lines("result_dtypes.txt")) {
    const std::string& want = line[column];
    if (want == "-") continue;
    const Explanation answer = explain(
        {.op = line[1], .dtypes = words(line[2], ','), .strategy = strategy, .device = line[0]});
    const std::string got = answer.error.empty() ? answer.returns : "error";
    if (got != want) MESSAGE(line[0], " ", line[1], " ", line[2], ": got ", got, ", want ", want);
    wrong += got != want;
  }
  return wrong;
}

}  // namespace

TEST_CASE("results are those that PyTorch gave in regions of bf16 and of f16") {
  CHECK(wrong_answers("bf16", 4) == 0);
  CHECK(wrong_answers("fp16", 5) == 0);
}

TEST_CASE("results without a policy are those that PyTorch gave outside regions") {
  CHECK(wrong_answers("fp32", 3) == 0);
}

TEST_CASE("a CUDA region of fp16 answers the reference vectors") {
  const std::vector<std::vector<std::string>> vectors = {
      {"mm", "f32 f32", "f16"},
      {"mm", "f32 f16", "f16"},
      {"mm", "f64 f64", "f64"},
      {"mm", "f64 f32", "error"},
      {"exp", "f16", "f32"},
      {"softmax", "f16", "f32"},
      {"sum", "f16", "f32"},
      {"sum", "i64", "i64"},
      {"add", "f16 f32", "f32"},
      {"cat", "f16 f32", "f32"},
      {"mean", "f16", "f16"},
      {"relu", "f16", "f16"},
      {"addcmul", "f16 f16 f16", "f16"},
      {"addcmul", "f16 f32 f16", "f32"},
      {"addcmul", "f16 bf16 f16", "error"},
      {"addcmul", "f32 bf16 f16", "f32"},
      {"layer_norm", "f16", "f32"},
      {"batch_norm", "f16 f32 f32", "f16"},
      {"binary_cross_entropy", "f16 f16", "error"},
      {"binary_cross_entropy_with_logits", "f16 f16", "f32"},
      {"addmm_", "f32 f16 f16", "error"},
      {"square", "f16", "f32"},
      {"mm", "f8_e4m3 f32", "f16"},
      {"addcmul", "f8_e4m3 f16 f16", "error"}};
  for (const auto& vector : vectors) {
    CAPTURE(vector[0]);
    CAPTURE(vector[1]);
    CHECK(torch_fp16(vector[0], vector[1]) == vector[2]);
  }
  CHECK(returned("softmax", "f16", {.strategy = "fp16", .settings = {{"output_dtype", "f16"}}}) ==
        "f16");
}

TEST_CASE("a promote op on a CPU is an error for another 16-bit dtype, unless f32 came first") {
  const Question bf16{.strategy = "bf16", .device = "cpu"};
  CHECK(returned("cat", "f32 f16", bf16) == "f32");
  CHECK(returned("cat", "f16 f32", bf16) == "error");
  CHECK(returned("cat", "f64 bf16", bf16) == "f64");
  CHECK(returned("roll", "f16", bf16) == "error");
  CHECK(returned("binary_cross_entropy", "bf16 bf16", bf16) == "f32");
}

TEST_CASE("Fourier transforms take f16 on a GPU, and bf16 nowhere but where a region widens it") {
  for (const char* op : {"fft_fft", "torch.fft.irfft", "fft.fft2", "stft", "torch.stft"}) {
    CAPTURE(std::string(op));
    for (const char* strategy : {"fp32", "bf16", "fp16"})
      CHECK(returned(op, "bf16", {.strategy = strategy, .device = "cuda"}) == "error");
    CHECK(returned(op, "f16", {.strategy = "fp16", .device = "cuda"}) != "error");
    CHECK(returned(op, "bf16", {.strategy = "bf16", .device = "cpu"}) ==
          returned(op, "f32", {.strategy = "fp32", .device = "cpu"}));
    CHECK(returned(op, "bf16", {.strategy = "fp32", .device = "cpu"}) == "error");
  }
}

TEST_CASE("torch.linalg.matrix_exp is found by that name, as by its others") {
  for (const char* op : {"torch.linalg.matrix_exp", "linalg.matrix_exp", "linalg_matrix_exp"}) {
    CAPTURE(std::string(op));
    const Question bf16{.strategy = "bf16", .device = "cpu"};
    CHECK(returned(op, "bf16", bf16) == "bf16");
    CHECK(returned(op, "f32", bf16) == "f32");
    CHECK(returned(op, "f16", bf16) == "error");
  }
}

TEST_CASE("einsum reaches a matrix product on a CPU, which takes no f64 beside another dtype") {
  const Question bf16{.strategy = "bf16", .device = "cpu"};
  CHECK(returned("einsum", "f32 f16", bf16) == "bf16");
  CHECK(returned("einsum", "f64 f64", bf16) == "f64");
  CHECK(returned("einsum", "f64 f32", bf16) == "error");
  CHECK(returned("einsum", "f16 f32", {.strategy = "fp32", .device = "cpu"}) == "error");
}

TEST_CASE("Apex O1 casts doubles too, widens pairs and refuses other mixes") {
  CHECK(apex("mm", "f32 f32") == "f16");
  CHECK(apex("mm", "f64 f32") == "f16");
  CHECK(apex("softmax", "f16") == "f32");
  CHECK(apex("add", "f16 f32") == "f32");
  CHECK(apex("add", "f16 f16") == "f16");
  CHECK(apex("add", "f64 f64") == "f64");
  CHECK(apex("add", "f32 f64") == "error");
  CHECK(apex("add", "bf16 f16") == "error");
  CHECK(apex("cat", "f32 f64") == "f64");
  CHECK(apex("eq", "f16 f32") == "bool");
  CHECK(apex("einsum", "f32 f32") == "f32");
  CHECK(apex("binary_cross_entropy", "f16 f32") == "error");
  CHECK(apex("binary_cross_entropy", "f32 f32") == "f32");
  CHECK(apex("exp_", "f16") == "error");
  CHECK(apex("exp_", "f32") == "f32");
  CHECK(apex("mul_", "f16 f32") == "f16");
  CHECK(apex("__matmul__", "f32 f32") == "f16");
}

TEST_CASE("Apex's other levels patch nothing, and registered functions change O1") {
  for (const char* level : {"O0", "O2", "O3"})
    CHECK(returned("softmax", "f16", {.strategy = "fp16_apex", .level = level}) == "f16");
  const Question half{.strategy = "fp16_apex", .settings = {{"half_functions", "relu,mean"}}};
  const Question floating{.strategy = "fp16_apex", .settings = {{"float_functions", "mm"}}};
  CHECK(returned("relu", "f32", half) == "f16");
  CHECK(returned("mm", "f32 f32", floating) == "f32");
}

TEST_CASE("styles that convert the whole model say what an op does there") {
  const auto in_model = [](const char* op, const char* dtypes, Question question) {
    question.op = op;
    question.dtypes = words(dtypes);
    return explain(question).in_model;
  };
  const Question cast{.strategy = "bf16", .settings = {{"style", "cast"}}};
  const Question o2{.strategy = "fp16_apex", .level = "O2"};
  const Question o3{.strategy = "fp16_apex", .level = "O3"};
  CHECK(returned("mm", "f32 f32", cast) == "f32");
  CHECK(in_model("mm", "f32 f32", cast) == "mm(bf16, bf16) runs in bf16 and returns bf16");
  CHECK(in_model("embedding", "f32 i64", o2) == "embedding(f16, i64) runs in f16 and returns f16");
  CHECK(in_model("batch_norm", "f32 f32 f32", o2) ==
        "batch_norm(f16, f32, f32) runs in f16 and returns f16");
  CHECK(in_model("batch_norm", "f32 f32 f32", o3) ==
        "batch_norm(f16, f16, f16) runs in f16 and returns f16");
  CHECK(in_model("softmax", "f32", {.strategy = "fp16_naive"}) ==
        "softmax(f16) runs in f16 and returns f16");
  CHECK(in_model("softmax", "f32", {.strategy = "fp16"}).empty());
}

TEST_CASE("Paddle's levels answer the reference vectors") {
  const Question o1{.strategy = "fp16_paddle"};
  const Question od{.strategy = "fp16_paddle", .level = "OD"};
  const Question o2{.strategy = "fp16_paddle", .level = "O2"};
  Question old = o2, white = o1, bf16 = o1;
  old.settings = {{"use_promote", "false"}};
  white.settings = {{"custom_white_list", "elementwise_add"}};
  bf16.settings = {{"dtype", "bfloat16"}};
  CHECK(returned("matmul_v2", "f32 f32", o1) == "f16");
  CHECK(returned("elementwise_add", "f16 f32", o1) == "f32");
  CHECK(returned("elementwise_add", "f16 f16", o1) == "f16");
  CHECK(returned("softmax", "f16", o1) == "f32");
  CHECK(returned("bmm", "f32 f32", o1) == "f32");
  CHECK(returned("elementwise_add", "f32 f32", white) == "f16");
  CHECK(returned("elementwise_add", "f16 f16", od) == "f32");
  CHECK(returned("softmax", "f16", o2) == "f16");
  CHECK(returned("conv2d", "f32 f32", o2) == "f16");
  CHECK(returned("lookup_table_v2", "f16 i64", o2) == "f32");
  CHECK(returned("layer_norm", "f16 f32 f32", o2) == "f16");
  CHECK(returned("relu", "f32", o2) == "f32");
  CHECK(returned("relu", "f32", old) == "f16");
  CHECK(returned("matmul_v2", "f64 f64", old) == "f64");
  CHECK(returned("p_norm", "bf16", bf16) == "bf16");
  CHECK(returned("sum", "f16", o1) == "f32");
  CHECK(returned("softmax", "f16", {.strategy = "fp16_paddle", .level = "O0"}) == "f16");
  CHECK(returned("matmul_v2", "f32 f32", {.strategy = "fp16_paddle", .device = "cpu"}) == "f32");
}

TEST_CASE("in Paddle's static graph the last argument decides for a gray op") {
  const Question o1{.strategy = "fp16_paddle", .settings = {{"static_graph", "true"}}};
  CHECK(returned("elementwise_add", "f32 f16", o1) == "f16");
  CHECK(returned("elementwise_add", "f16 f32", o1) == "f32");
  CHECK(returned("gelu", "f16", o1) == "f32");
  CHECK(returned("layer_norm", "f16 f32 f32", o1) == "f32");
  CHECK(explain({.op = "relu",
                 .dtypes = {"f16"},
                 .strategy = "fp16_paddle",
                 .settings = {{"static_graph", "true"}}})
            .list == "gray static");
}

TEST_CASE("an op without a GPU kernel in Paddle falls back to f32, whatever list it is on") {
  const Question o2{
      .op = "nll_loss", .dtypes = {"f16", "i64"}, .strategy = "fp16_paddle", .level = "O2"};
  CHECK(explain(o2).rule == "cast to f32: Paddle has no GPU kernel of it for f16");
  CHECK(explain(o2).returns == "f32");
  Question white = o2, f16 = o2, bf16 = o2;
  white.settings = {{"custom_white_list", "nll_loss"}};
  CHECK(explain(white).runs_in == "f32");
  f16.op = bf16.op = "bce_loss";
  f16.dtypes = {"f16", "f16"};
  bf16.dtypes = {"bf16", "bf16"};
  bf16.settings = {{"dtype", "bfloat16"}};
  CHECK(explain(f16).returns == "f16");
  CHECK(explain(bf16).returns == "f32");
}

TEST_CASE("on a CPU Paddle casts nothing and has the 16-bit kernels of its own registry") {
  for (const auto& line : golden_lines("paddle_kernels.txt")) {
    if (!paddle_result_rule(line[0])) continue;
    CAPTURE(line[0]);
    const auto has = [&](const char* dtype) {
      return std::find(line.begin() + 1, line.end(), dtype) != line.end();
    };
    const Kernels kernels = paddle_result_rule(line[0])->kernels;
    CHECK((kernels == Kernels::all || kernels == Kernels::no_bf16) == has("float16"));
    CHECK((kernels == Kernels::all || kernels == Kernels::no_f16) == has("bfloat16"));
  }
  const Question cpu{.strategy = "fp16_paddle", .device = "cpu"};
  CHECK(returned("relu", "f32", cpu) == "f32");
  CHECK(returned("relu", "f16", cpu) == "error");
  CHECK(returned("scale", "f16", cpu) == "f16");
}

TEST_CASE("an answer names the list, the rule and the source") {
  const Explanation answer = explain({.op = "torch.nn.functional.linear",
                                      .dtypes = {"torch.float32", "half"},
                                      .strategy = "fp16"});
  CHECK(answer.arguments == std::vector<std::string>{"f32", "f16"});
  CHECK(answer.runs_in == "f16");
  CHECK(answer.list == "lower_precision_fp");
  CHECK(answer.rule.find("cast to f16") != std::string::npos);
  CHECK(answer.source.find("PyTorch 2.15") != std::string::npos);
  const Explanation fp8 = explain({.op = "linear", .dtypes = {"f32", "f32"}, .strategy = "fp8"});
  CHECK(fp8.runs_in == "f8_e4m3");
  CHECK(fp8.returns == "bf16");
  CHECK(fp8.source.find("PyTorch") == std::string::npos);
  CHECK(explain({.op = "binary_cross_entropy", .dtypes = {"f16", "f16"}, .strategy = "fp16"})
            .error.find("binary_cross_entropy_with_logits") != std::string::npos);
}

TEST_CASE("what does not exist is an error with the nearest name") {
  const auto wrong = [](Question question, const char* text) {
    CHECK_THROWS_WITH_AS(explain(question), doctest::Contains(text), Error);
  };
  wrong({.op = "sofmax", .dtypes = {"f16"}, .strategy = "fp16"}, "did you mean softmax?");
  wrong({.op = "softmax", .dtypes = {"f15"}, .strategy = "fp16"}, "did you mean f16?");
  wrong({.op = "softmax", .dtypes = {"f16"}, .strategy = "fp17"}, "did you mean fp16?");
  wrong({.op = "softmax", .dtypes = {"f16"}, .strategy = "fp16_apex", .level = "O4"},
        "want one of O0, O1, O2, O3");
  wrong({.op = "softmax", .dtypes = {"f16"}, .strategy = "fp16", .level = "O1"}, "has no levels");
  wrong({.op = "softmax", .dtypes = {"f16"}, .strategy = "mine"}, "defines its casts in policy()");
  wrong({.op = "mm", .dtypes = {"f16"}, .strategy = "bf16", .settings = {{"style", "casts"}}},
        "did you mean cast?");
  wrong({.op = "softmax", .dtypes = {"f16"}, .strategy = "fp16", .device = "tpu"}, "cuda, cpu");
  wrong({.op = "softmax",
         .dtypes = {"f16"},
         .strategy = "fp16_paddle",
         .settings = {{"custom_whitelist", "x"}}},
        "did you mean custom_white_list?");
  wrong({.op = "softmax", .dtypes = {}, .strategy = "fp16"}, "no dtypes");
}

TEST_CASE("list ops heeds the settings of its strategy") {
  const auto listed = [](const std::string& strategy, std::map<std::string, std::string> settings) {
    std::map<std::string, std::pair<std::string, std::string>> by_name;
    for (const OpClassRow& row : listed_ops({.strategy = strategy, .settings = settings}))
      by_name[row.op] = {row.op_class, row.list};
    return by_name;
  };
  const auto plain = listed("fp16_paddle", {});
  const auto bf16 = listed("fp16_paddle", {{"dtype", "bfloat16"}});
  CHECK(plain.at("fused_attention").second == "white fp16");
  CHECK(bf16.count("fused_attention") == 0);
  // The static graph has one white list for both dtypes, except for two ops.
  const auto gray = listed("fp16_paddle", {{"dtype", "bfloat16"}, {"static_graph", "true"}});
  for (const char* op :
       {"fused_attention", "fused_feedforward", "fake_quantize_dequantize_abs_max"})
    CHECK(gray.at(op).second == "white fp16");
  CHECK(gray.count("resnet_unit") == 0);
  CHECK(gray.at("relu").second == "gray static");
  const auto custom = listed(
      "fp16_paddle", {{"custom_white_list", "exp,gelu"}, {"custom_black_list", "conv2d,matmul"}});
  CHECK(custom.at("exp") == std::pair<std::string, std::string>("lower_precision", "custom white"));
  CHECK(custom.at("gelu").second == "custom white");
  CHECK(custom.at("conv2d") == std::pair<std::string, std::string>("fp32", "custom black"));
  CHECK(custom.at("matmul_v2").second == "white");
  CHECK(listed("fp16_apex", {{"half_functions", "gelu"}}).at("gelu").second ==
        "register_half_function");
  CHECK_THROWS_AS(listed("bf16", {{"custom_white_list", "exp"}}), Error);
}

TEST_CASE("list ops gives each op once with its overloads") {
  const auto rows = listed_ops({.strategy = "bf16", .device = "cpu"});
  size_t registrations = 0;
  for (const OpClassRow& row : rows) registrations += row.overloads.size();
  CHECK(registrations == golden_lines("autocast_cpu.txt").size());
  CHECK(listed_ops({.strategy = "fp32"}).empty());
  CHECK(listed_ops({.strategy = "fp16_paddle", .level = "O0"}).empty());
}

TEST_CASE("the names of our ops are names that torch and Paddle know") {
#define OURS(op, torch, paddle)                         \
  CHECK(std::string(torch_name_of(Op::op)) == torch);   \
  CHECK(std::string(paddle_name_of(Op::op)) == paddle); \
  CHECK_MESSAGE(torch_result_rule(torch), #op);         \
  CHECK_MESSAGE(paddle_result_rule(paddle), #op);
#include "mixed_precision/ops/tables/our_ops.def"
}
