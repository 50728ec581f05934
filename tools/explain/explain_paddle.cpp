#include "mixed_precision/ops/paddle_ops.h"
#include "tools/explain/explain_question.h"
#include "tools/explain/explain_systems.h"

namespace booster {
namespace {

class Paddle final : public System {
 public:
  Paddle(PaddleLevel level, NumberType lower_type, DeviceType device_type, const PaddleLists& lists)
      : rules_(level, lower_type == NumberType::f16 ? DType::f16 : DType::bf16, lists),
        lists_(lists) {
    lower = lower_type;
    device = device_type;
    casts_8_bit = false;
    source = paddle_op_table().source();
  }

  KnownOp find(const std::string& op) const override {
    std::string name = op.starts_with("paddle.") ? op.substr(7) : op;
    const char* paddle = name_from_ours(op, paddle_name_of);
    if (paddle && !paddle_result_rule(name)) name = paddle;
    const auto results = paddle_result_rule(name);
    if (!results) no_such_op("Paddle", op, paddle_op_names());
    KnownOp known{.name = name, .results = *results};
    const std::string_view list = rules_.list_of(name);
    known.list = list == "unlisted" ? "none" : std::string(list);
    known.op_class = rules_.class_of(name);
    if (rules_.lacks_kernel(name))
      known.rule =
          fmt::format("cast to f32: Paddle has no GPU kernel of it for {}", name_of(lower));
    if (device == DeviceType::cpu) {
      known.op_class = OpClass::untouched;
      known.rule = "not cast: Paddle's AMP has no effect on a CPU";
    }
    return known;
  }

  std::vector<OpClassRow> rows() const override {
    std::vector<OpClassRow> rows;
    for (OpClassRow& row : rows_of(paddle_op_table())) {
      if (rules_.list_of(row.op) == row.list) rows.push_back(std::move(row));
    }
    const auto dead = ineffective_names(lists_);
    for (const auto* names : {&lists_.white, &lists_.black})
      for (const std::string& name : *names)
        if (!has(dead, name))
          rows.push_back({name,
                          {""},
                          name_of(rules_.class_of(name)),
                          std::string(rules_.list_of(name)),
                          "settings"});
    return rows;
  }

 private:
  PaddleRules rules_;
  PaddleLists lists_;
};

}  // namespace

std::unique_ptr<System> make_paddle_system(const Question& question) {
  check_settings(
      question, {"custom_white_list", "custom_black_list", "use_promote", "dtype", "static_graph"});
  const PaddleLists lists{names_in_setting(question, "custom_white_list"),
                          names_in_setting(question, "custom_black_list"),
                          flag_setting(question, "use_promote", true),
                          flag_setting(question, "static_graph", false)};
  const NumberType lower = number_type_named(setting(question, "dtype", "float16"));
  check(is_16_bit_float(lower), "dtype: must be float16 or bfloat16; got {}", name_of(lower));
  const PaddleLevel level = paddle_level(question.level.empty() ? "O1" : question.level);
  return std::make_unique<Paddle>(level, lower, device_of(question), lists);
}

}  // namespace booster
