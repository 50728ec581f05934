#include "tools/explain/explain.h"

#include "core/autograd/cast_plan.h"
#include "tools/explain/explain_question.h"
#include "tools/explain/explain_systems.h"

#include <fmt/format.h>

#include <array>

namespace booster {
namespace {

using Types = std::vector<NumberType>;

ArgumentKind kind_of(const System& system, NumberType type) {
  const bool passes = !is_floating(type) || (type == NumberType::f64 && !system.casts_doubles) ||
                      (is_8_bit_float(type) && !system.casts_8_bit);
  if (passes) return ArgumentKind::passes;
  if (type == system.lower) return ArgumentKind::lower;
  return type == NumberType::f32 ? ArgumentKind::f32 : ArgumentKind::other;
}

bool takes_part(const System& system, NumberType type) {
  return kind_of(system, type) != ArgumentKind::passes;
}

bool one_dtype(const System& system, const Types& types) {
  NumberType first = NumberType::none;
  for (const NumberType type : types) {
    if (!takes_part(system, type)) continue;
    if (first == NumberType::none) first = type;
    if (type != first) return false;
  }
  return true;
}

CastPlan plan_of(const System& system, const KnownOp& op, const Types& types) {
  return plan_casts(
      op.op_class, types.size(), [&](size_t i) { return kind_of(system, types[i]); },
      [&] { return one_dtype(system, types); }, [](size_t) { return true; });
}

Types cast(const System& system, const CastPlan& plan, Types types) {
  const size_t count = plan.which == CastPlan::Which::all     ? types.size()
                       : plan.which == CastPlan::Which::first ? 1
                                                              : 0;
  for (size_t i = 0; i < count; ++i)
    if (takes_part(system, types[i])) types[i] = plan.to_f32 ? NumberType::f32 : system.lower;
  return types;
}

std::string refusal_text(const System& system, const KnownOp& op, const CastPlan& plan) {
  if (!op.refusal.empty()) return op.refusal;
  const char* lower = name_of(system.lower);
  if (plan.objection == CastPlan::Objection::banned)
    return fmt::format("{}: not safe in {}: its gradient overflows; use "
                       "binary_cross_entropy_with_logits, or turn casts off for this call",
                       op.name, lower);
  return fmt::format("{}: dtypes that cannot be widened; want {} or f32", op.name, lower);
}

std::string rule_text(const System& system, const KnownOp& op) {
  const char* lower = name_of(system.lower);
  const char* which = system.casts_doubles ? "floating arguments" : "floating arguments but f64";
  switch (op.op_class) {
    case OpClass::untouched: return "not cast: runs in the dtypes of its arguments";
    case OpClass::lower_precision: return fmt::format("{} are cast to {}", which, lower);
    case OpClass::fp32: return fmt::format("{} are cast to f32", which);
    case OpClass::fp32_result: return "arguments are not cast; computes and returns f32";
    case OpClass::widest:
      return fmt::format("{} are cast to f32 if one is f32, else to {}", which, lower);
    case OpClass::banned: return "banned";
    case OpClass::banned_lower: return fmt::format("banned if an argument is {}", lower);
    case OpClass::widen_pair: return fmt::format("{} with f32 becomes f32", lower);
    case OpClass::widen_list:
      return fmt::format("{} with f32 is cast to f32; other mixes are not cast", lower);
    case OpClass::lower_unless_fp32:
      return fmt::format("cast to f32 if an argument is f32, else to {}", lower);
    case OpClass::lower_unless_first_fp32:
      return fmt::format(
          "cast to f32 if the first argument is f32; else only that one is cast, to {}", lower);
    case OpClass::lower_first: return fmt::format("the first argument is cast to {}", lower);
    case OpClass::as_made:
      return fmt::format("cast to f32 if the last argument that an op made is f32, else to {}",
                         lower);
    case OpClass::as_first_made:
      return fmt::format(
          "cast to f32 if an op made the first argument in f32; else only that one is cast, to {}",
          lower);
  }
  return "";
}

ResultTypes results_of(const System& system, const KnownOp& op, const Types& given,
                       const Types& types) {
  if (op.equal_before_casts) result_types(op.name, op.results, given, system.device);
  if (op.casts_at_end) {
    ResultTypes own = result_types(op.name, op.results, given, system.device);
    if (takes_part(system, own.returns)) own.returns = system.lower;
    return own;
  }
  ResultTypes results = result_types(op.name, op.results, types, system.device);
  if (op.op_class == OpClass::fp32_result && takes_part(system, given[0]))
    results = {NumberType::f32, NumberType::f32};
  const NumberType state = given[given.size() > 1 ? 1 : 0];
  if (op.keeps_state && takes_part(system, state))
    results.returns = promoted(std::array{results.returns, state});
  if (op.in_fp8 && results.runs_in == system.lower) results.runs_in = NumberType::f8_e4m3;
  return results;
}

Types parse(const Question& question) {
  check(!question.dtypes.empty(),
        "explain: no dtypes; got only {}, want one dtype for each tensor argument, as in `explain "
        "{} f16 f32`",
        question.op, question.op);
  Types types;
  for (const std::string& dtype : question.dtypes) types.push_back(number_type_named(dtype));
  return types;
}

NumberType output_dtype(const Question& question) {
  const auto found = question.settings.find("output_dtype");
  return found == question.settings.end() ? NumberType::none : number_type_named(found->second);
}

// An explicit dtype argument overrides the policy.
void answer(const System& system, const KnownOp& op, const Types& types, NumberType output,
            Explanation& explanation) {
  const CastPlan plan = plan_of(system, op, types);
  if (plan.objection != CastPlan::Objection::none) {
    explanation.error = refusal_text(system, op, plan);
    return;
  }
  try {
    ResultTypes results = results_of(system, op, types, cast(system, plan, types));
    if (output != NumberType::none) results = {output, output};
    explanation.runs_in = name_of(results.runs_in);
    explanation.returns = name_of(results.returns);
  } catch (const Error& error) {
    explanation.error = error.what();
  }
}

// Returns the op's argument dtypes in a wholly converted model.
Types in_model(const System& system, const KnownOp& op, Types types) {
  const size_t count = system.keeps_batch_norm && op.name == "batch_norm" ? 1 : types.size();
  for (size_t i = 0; i < count; ++i)
    if (is_floating(types[i])) types[i] = *system.model;
  return types;
}

std::vector<std::string> names_of(const Types& types) {
  std::vector<std::string> names;
  for (const NumberType type : types) names.emplace_back(name_of(type));
  return names;
}

void answer_in_model(const System& system, const KnownOp& op, const Types& types,
                     NumberType output, Explanation& explanation) {
  const Types given = in_model(system, op, types);
  Explanation there;
  answer(system, op, given, output, there);
  explanation.in_model = fmt::format("{}({}) ", explanation.op, fmt::join(names_of(given), ", "));
  explanation.in_model +=
      there.error.empty()
          ? fmt::format("runs in {} and returns {}", there.runs_in, there.returns)
          : "is an error: " + there.error;
}

}  // namespace

std::string explained_device(const std::string& device) {
  return device_of({.device = device}) == DeviceType::cpu ? "cpu" : "cuda";
}

Explanation explain(const Question& question) {
  const auto system = make_system(question);
  const KnownOp op = system->find(question.op);
  const Types types = parse(question);
  Explanation explanation{.op = question.op,
                          .device = explained_device(question.device),
                          .arguments = names_of(types),
                          .rule = op.rule.empty() ? rule_text(*system, op) : op.rule,
                          .list = op.list,
                          .source = op.source.empty() ? system->source : op.source};
  answer(*system, op, types, output_dtype(question), explanation);
  if (system->model) answer_in_model(*system, op, types, output_dtype(question), explanation);
  return explanation;
}

std::vector<OpClassRow> listed_ops(const Question& question) {
  return make_system(question)->rows();
}

}  // namespace booster
