#include "tools/explain/explain_systems.h"

#include "tools/explain/explain_question.h"

namespace booster {

[[noreturn]] void no_such_op(const char* system, const std::string& op,
                             std::vector<std::string> names) {
  for (int i = 0; i < op_count; ++i) names.emplace_back(name_of(static_cast<Op>(i)));
  const std::string near = nearest_name(op, names);
  fail("op: unknown name, in {} and here; got {}{}", system, op,
       near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
}

const char* name_from_ours(const std::string& name, const char* (*other_name_of)(Op)) {
  for (int i = 0; i < op_count; ++i)
    if (name == name_of(static_cast<Op>(i))) return other_name_of(static_cast<Op>(i));
  return nullptr;
}

void take_row(KnownOp& op, const ListedOp* row) {
  if (!row) return;
  op.op_class = row->op_class;
  op.list = row->is_composed() ? "composed of listed ops" : std::string(row->list);
  op.equal_before_casts = row->list == "composed of equals";
  op.keeps_state = row->list == "composed with a state";
  op.casts_at_end = row->list == "composed at the end";
  if (op.keeps_state) op.rule = "the products inside are cast; the state widens their result";
  if (op.casts_at_end) op.rule = "not cast; a product at its end is cast";
}

std::vector<OpClassRow> rows_of(const OpTable& table) {
  std::vector<OpClassRow> rows;
  for (const ListedOp& op : table.ops()) {
    if (op.is_composed()) continue;
    const bool again = !rows.empty() && rows.back().op == op.name && rows.back().list == op.list;
    if (!again)
      rows.push_back({op.name, {}, name_of(op.op_class), std::string(op.list), table.source()});
    rows.back().overloads.push_back(op.overload);
  }
  return rows;
}

std::vector<std::string> explained_strategies() {
  return {"fp32", "fp16", "fp16_apex", "fp16_naive", "fp16_paddle", "bf16", "fp8", "fp64"};
}

std::unique_ptr<System> make_system(const Question& question) {
  const std::vector<std::string> strategies = explained_strategies();
  check(!question.strategy.empty(), "strategy: not given{}", legal_names("", strategies));
  check(has(strategies, question.strategy),
        "strategy: no op lists for this name; got {}{}; a strategy of your own defines its casts "
        "in policy()",
        question.strategy, legal_names(question.strategy, strategies));
  if (question.strategy == "fp16_apex") return make_apex_system(question);
  if (question.strategy == "fp16_paddle") return make_paddle_system(question);
  return make_torch_system(question);
}

}  // namespace booster
