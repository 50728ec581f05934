// `booster explain` describes our ops as they behave under the strategies' policies: random dtypes,
// each op run.
#include "core/autograd/functions.h"
#include "core/nn/functional.h"
#include "mixed_precision/ops/op_table.h"
#include "tools/explain/result_rules.h"
#include "mixed_precision/strategies/bf16.h"
#include "mixed_precision/strategies/fp16_apex.h"
#include "mixed_precision/strategies/fp16_paddle.h"
#include "mixed_precision/strategies/fp16_torch.h"
#include "platform/error.h"
#include "tests/capture_part.h"
#include "tools/explain/explain.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>

using namespace booster;

namespace {

using Arguments = std::vector<Tensor>;

// One of our ops, run on tensors of shape (4, 4) with positive values.
struct RunnableOp {
  Op op;
  size_t arguments;
  std::function<Tensor(const Arguments&)> run;
};

Tensor as_image(const Tensor& x) { return untracked::reshape(x, {1, 1, 4, 4}); }

std::vector<RunnableOp> runnable_ops() {
  std::vector<RunnableOp> ops = {
#define UNARY(name, ...) {Op::name, 1, [](const Arguments& x) { return name(x[0]); }},
#define BINARY(name, ...) {Op::name, 2, [](const Arguments& x) { return name(x[0], x[1]); }},
#define COMPARE(name, ...)
#include "kernels/elementwise.def"
      {Op::matmul, 2, [](const Arguments& x) { return matmul(x[0], x[1]); }},
      {Op::linear, 2, [](const Arguments& x) { return linear(x[0], x[1]); }},
      {Op::linear, 3,
       [](const Arguments& x) { return linear(x[0], x[1], untracked::select(x[2], 0, 0)); }},
      {Op::softmax, 1, [](const Arguments& x) { return softmax(x[0], -1); }},
      {Op::log_softmax, 1, [](const Arguments& x) { return log_softmax(x[0], -1); }},
      {Op::sum, 1, [](const Arguments& x) { return sum(x[0]); }},
      {Op::mean, 1, [](const Arguments& x) { return mean(x[0]); }},
      {Op::var, 1, [](const Arguments& x) { return var(x[0], {-1}); }},
      {Op::norm, 1, [](const Arguments& x) { return norm(x[0]); }},
      {Op::amax, 1, [](const Arguments& x) { return amax(x[0]); }},
      {Op::logsumexp, 1, [](const Arguments& x) { return logsumexp(x[0], -1); }},
      {Op::cumsum, 1, [](const Arguments& x) { return cumsum(x[0], 0); }},
      {Op::cat, 2,
       [](const Arguments& x) {
         return cat({x[0], x[1]}, 0);
       }},
      {Op::cat, 3,
       [](const Arguments& x) {
         return cat({x[0], x[1], x[2]}, 0);
       }},
      {Op::stack, 2,
       [](const Arguments& x) {
         return stack({x[0], x[1]}, 0);
       }},
      {Op::rms_norm, 1, [](const Arguments& x) { return rms_norm(x[0], {4}); }},
      {Op::rms_norm, 2,
       [](const Arguments& x) { return rms_norm(x[0], {4}, untracked::select(x[1], 0, 0)); }},
      {Op::elu, 1, [](const Arguments& x) { return elu(x[0]); }},
      {Op::leaky_relu, 1, [](const Arguments& x) { return leaky_relu(x[0]); }},
      {Op::interpolate, 1,
       [](const Arguments& x) {
         return interpolate_nearest(as_image(x[0]), {3, 5});
       }},
      {Op::interpolate, 1,
       [](const Arguments& x) {
         return interpolate(as_image(x[0]), {3, 5});
       }},
      {Op::reflection_pad, 1,
       [](const Arguments& x) {
         return pad(as_image(x[0]), {1, 1, 1, 1}, "reflect");
       }},
      {Op::replication_pad, 1,
       [](const Arguments& x) {
         return pad(as_image(x[0]), {1, 1, 1, 1}, "replicate");
       }},
      {Op::mse_loss, 2, [](const Arguments& x) { return mse_loss(x[0], x[1]); }},
      {Op::l1_loss, 2, [](const Arguments& x) { return l1_loss(x[0], x[1]); }},
      {Op::smooth_l1_loss, 2, [](const Arguments& x) { return smooth_l1_loss(x[0], x[1]); }},
      {Op::binary_cross_entropy_with_logits, 2,
       [](const Arguments& x) { return binary_cross_entropy_with_logits(x[0], x[1]); }},
      {Op::binary_cross_entropy, 2,
       [](const Arguments& x) { return binary_cross_entropy(x[0], x[1]); }},
  };
  return ops;
}

struct Ruled {
  std::string name;
  OpPolicy policy;
  Question question;
};

// Applies the rules of either device on this device.
Ruled ruled(const Precision& precision, DeviceType device, Question question) {
  OpPolicy policy = *precision.policy({device});
  policy.device = DeviceType::cpu;
  question.strategy = precision.name();
  question.device = device == DeviceType::cpu ? "cpu" : "cuda";
  std::string name = question.strategy + " " + question.level + " on " + question.device;
  for (const auto& [key, value] : question.settings) name += " " + key + "=" + value;
  return {name, policy, question};
}

std::vector<Ruled> all_rules() {
  std::vector<Ruled> all;
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda}) {
    all.push_back(ruled(FP16Torch(), device, {}));
    all.push_back(ruled(BF16(), device, {}));
  }
  all.push_back(ruled(FP16Apex(), DeviceType::cuda, {.level = "O1"}));
  for (const char* level : {"O1", "O2", "OD"})
    for (const char* dtype : {"float16", "bfloat16"})
      all.push_back(ruled(FP16Paddle({.level = level, .dtype = dtype}), DeviceType::cuda,
                          {.level = level, .settings = {{"dtype", dtype}}}));
  return all;
}

std::string answered(const Ruled& rules, Op op, const Arguments& arguments) {
  Question question = rules.question;
  question.op = question.strategy == "fp16_paddle" ? paddle_name_of(op) : torch_name_of(op);
  for (const Tensor& x : arguments) question.dtypes.emplace_back(name_of(x.dtype()));
  const Explanation answer = explain(question);
  return answer.error.empty() ? answer.returns : "error";
}

// Whether torch and Paddle have the op; explain knows no other.
bool is_theirs(Op op) {
  return torch_result_rule(torch_name_of(op)) && paddle_result_rule(paddle_name_of(op));
}

// Our losses are f32 (f64 for f64 outputs) in every strategy, whatever the target's dtype.
bool is_loss_of_its_own(Op op, const Arguments& arguments, const std::string& explained) {
  const std::string name = name_of(op);
  const bool is_loss = name.ends_with("_loss") || name.starts_with("binary_cross_entropy");
  return is_loss && (explained != "f32" || arguments[0].dtype() != arguments[1].dtype());
}

std::string done(const Ruled& rules, const RunnableOp& op, const Arguments& arguments) {
  const PolicyScope scope(&rules.policy);
  try {
    return name_of(op.run(arguments).dtype());
  } catch (const Error&) {
    return "error";
  }
}

}  // namespace

TEST_CASE("our ops do under each policy what explain says, for drawn dtypes") {
  std::mt19937 random(17);
  const std::array dtypes = {DType::f16, DType::bf16, DType::f32, DType::f64};
  std::vector<RunnableOp> ops = runnable_ops();
  std::erase_if(ops, [](const RunnableOp& op) { return !is_theirs(op.op); });
  std::map<std::string, int> compared;
  std::set<std::string> wrong;
  for (const Ruled& rules : all_rules())
    for (const RunnableOp& op : ops)
      for (int draw = 0; draw < 12; ++draw) {
        Arguments arguments;
        std::string text = rules.name + ": " + name_of(op.op);
        for (size_t i = 0; i < op.arguments; ++i) {
          const DType dtype =
              i > 0 && random() % 2 == 0 ? arguments[0].dtype() : dtypes[random() % dtypes.size()];
          arguments.push_back(full({4, 4}, 0.5, {.dtype = dtype}));
          text += std::string(" ") + name_of(dtype);
        }
        const std::string want = answered(rules, op.op, arguments),
                          got = done(rules, op, arguments);
        if (want == "error" || is_loss_of_its_own(op.op, arguments, want)) continue;
        ++compared[rules.name];
        if (got != want) wrong.insert(text + ": does " + got + ", explained " + want);
      }
  for (const std::string& line : wrong) FAIL_CHECK(line);
  for (const auto& [name, count] : compared) {
    CAPTURE_PART(name);
    CHECK(count > 200);
  }
}

TEST_CASE("list ops, explain and the policies put each op of ours into one class") {
  for (const Ruled& rules : all_rules()) {
    CAPTURE(rules.name);
    const bool is_paddle = rules.question.strategy == "fp16_paddle";
    std::map<std::string, OpClassRow> rows;
    for (const OpClassRow& row : listed_ops(rules.question)) rows.emplace(row.op, row);
    int listed = 0;
    for (int i = 0; i < op_count; ++i) {
      const Op op = static_cast<Op>(i);
      if (!is_theirs(op)) continue;
      const std::string name = is_paddle ? paddle_name_of(op) : torch_name_of(op);
      CAPTURE(name);
      Question question = rules.question;
      question.op = name;
      question.dtypes = {"f32"};
      const std::string list = explain(question).list;
      const auto row = rows.find(name);
      const std::string in_force = name_of(rules.policy[op]);
      if (row == rows.end()) {
        CHECK((list == "none" || list.starts_with("composed")));
        if (!is_paddle && list == "none") CHECK(in_force == "untouched");
        continue;
      }
      ++listed;
      CHECK(list == row->second.list);
      CHECK(in_force == row->second.op_class);
    }
    CHECK(listed >= 3);
  }
}
