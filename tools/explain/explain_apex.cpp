#include "tools/explain/explain_question.h"
#include "tools/explain/explain_torch.h"

namespace booster {
namespace {

using Names = std::vector<std::string>;

class ApexO1 final : public TorchNamed {
 public:
  explicit ApexO1(const Question& question)
      : half_(names_in_setting(question, "half_functions")),
        floating_(names_in_setting(question, "float_functions")),
        promote_(names_in_setting(question, "promote_functions")) {
    device = device_of(question);
    casts_doubles = true;
    source = apex_op_table().source();
    for (const Names* names : {&half_, &floating_, &promote_})
      for (const std::string& name : *names)
        if (!torch_result_rule(name)) no_such_op("torch", name, torch_op_names());
  }
  std::vector<OpClassRow> rows() const override {
    std::vector<OpClassRow> rows = rows_of(apex_op_table());
    for (const Names* names : {&half_, &floating_, &promote_})
      for (const std::string& name : *names) {
        KnownOp op{.name = name};
        take_row(op, apex_op_table().find(name));
        register_function(op);
        if (!op.list.starts_with("register")) continue;
        std::erase_if(rows, [&](const OpClassRow& row) { return row.op == name; });
        rows.push_back({name, {""}, name_of(op.op_class), op.list, "settings"});
      }
    return rows;
  }

 protected:
  void classify(KnownOp& op) const override {
    take_row(op, apex_op_table().find(op.name));
    register_function(op);
    if (device == DeviceType::cpu) leave_alone(op);
  }

  // A registered function is wrapped inside the lists' wrapper: see apex_o1_policy.
  void register_function(KnownOp& op) const {
    const bool half = has(half_, op.name), floating = has(floating_, op.name);
    if (half || floating) {
      op.op_class = half ? OpClass::lower_precision : OpClass::fp32;
      op.list = half ? "register_half_function" : "register_float_function";
    } else if (op.op_class == OpClass::untouched && has(promote_, op.name)) {
      op.op_class = OpClass::widen_pair;
      op.list = "register_promote_function";
    }
  }

  KnownOp in_place(const std::string& base) const override {
    KnownOp op = TorchNamed::in_place(base);
    const ListedOp* row = apex_op_table().find(base);
    if (!row) return op;
    op.list = std::string(row->list) + ", in place";
    if (row->op_class == OpClass::fp32) {
      op.op_class = OpClass::banned_lower;
      op.rule = "in place: an error for f16";
      op.refusal = fmt::format("{}: cannot be called in place on f16; use {}", op.name, base);
    } else {
      op.results.match = ResultRule::Match::first;
      op.rule = "in place: other arguments are cast to the first one's dtype";
    }
    return op;
  }

 private:
  // Apex casts only CUDA tensors, but refuses banned ops on every device.
  static void leave_alone(KnownOp& op) {
    if (op.op_class == OpClass::banned_lower) return;
    op.op_class = OpClass::untouched;
    op.rule = "not cast: Apex casts CUDA tensors only";
  }

  Names half_, floating_, promote_;
};

}  // namespace

std::unique_ptr<System> make_apex_system(const Question& question) {
  static const Names levels = {"O0", "O1", "O2", "O3"};
  check_settings(question, {"half_functions", "float_functions", "promote_functions"});
  const std::string level = question.level.empty() ? "O1" : question.level;
  check(has(levels, level), "level: unknown level of fp16_apex; got {}{}", level,
        legal_names(level, levels));
  const DeviceType device = device_of(question);
  if (level == "O1") return std::make_unique<ApexO1>(question);
  if (level == "O0")
    return std::make_unique<Uncast>("not cast: O0 is f32 and patches no functions", device);
  return make_whole_model_system(level, NumberType::f16, level == "O2", device);
}

}  // namespace booster
