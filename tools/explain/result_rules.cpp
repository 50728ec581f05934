#include "tools/explain/result_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace booster {
namespace {

using Match = ResultRule::Match;
using Integers = ResultRule::Integers;
using Returns = ResultRule::Returns;
using Kernels = ResultRule::Kernels;
using Rules = std::unordered_map<std::string_view, ResultRule>;

struct Group {
  ResultRule rule;
  std::string_view names;
};

std::unordered_set<std::string_view> words_of(std::string_view text) {
  std::unordered_set<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.insert(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Rules by_name(std::initializer_list<Group> groups) {
  Rules rules;
  for (const Group& group : groups)
    for (const std::string_view name : words_of(group.names)) rules.emplace(name, group.rule);
  return rules;
}

#define RESULTS(match, leading, integers, returns, kernels, names) \
  {{Match::match, leading, Integers::integers, Returns(returns), Kernels::kernels}, names},

const Rules& torch_rules() {
  using enum NumberType;
  using enum Returns::Kind;
  static const Rules rules = by_name({
#include "tools/explain/tables/torch_results.def"
  });
  return rules;
}

enum class PaddleKernels : uint8_t {
  cpu_has_both,
  cpu_has_f16_alone,
  cpu_has_bf16_alone,
};

// Returns whether the name is on this list of Paddle's kernels.
bool is_listed(PaddleKernels list, std::string_view name) {
  static const auto lists = [] {
    std::array<std::unordered_set<std::string_view>, 3> filled;
#define KERNELS(list, names) filled[static_cast<size_t>(PaddleKernels::list)] = words_of(names);
#include "tools/explain/tables/paddle_cpu_kernels.def"
    return filled;
  }();
  return lists[static_cast<size_t>(list)].contains(name);
}

Kernels paddle_cpu_kernels(std::string_view name) {
  if (is_listed(PaddleKernels::cpu_has_both, name)) return Kernels::all;
  if (is_listed(PaddleKernels::cpu_has_f16_alone, name)) return Kernels::no_bf16;
  return is_listed(PaddleKernels::cpu_has_bf16_alone, name) ? Kernels::no_f16 : Kernels::no_16_bit;
}

const Rules& paddle_rules() {
  static const Rules rules = [] {
    using enum NumberType;
    using enum Returns::Kind;
    Rules made = by_name({
#define RESULTS(match, leading, integers, returns, names) \
  {{Match::match, leading, Integers::integers, Returns(returns), Kernels::all}, names},
#include "mixed_precision/ops/tables/paddle_results.def"
    });
    for (auto& [name, rule] : made) rule.kernels = paddle_cpu_kernels(name);
    return made;
  }();
  return rules;
}

std::optional<ResultRule> find(const Rules& rules, std::string_view name) {
  const auto found = rules.find(name);
  return found == rules.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> names_in(const Rules& rules) {
  std::vector<std::string> names;
  for (const auto& [name, rule] : rules) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

using Arguments = std::span<const NumberType>;

std::string joined(Arguments types) {
  std::vector<const char*> names;
  for (const NumberType type : types) names.push_back(name_of(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

NumberType first_float_or_promoted(Arguments types) {
  const auto found =
      std::find_if(types.begin(), types.end(), [](NumberType type) { return is_floating(type); });
  return found == types.end() ? promoted(types) : *found;
}

bool all_same(Arguments types) {
  return std::all_of(types.begin(), types.end(), [&](NumberType type) { return type == types[0]; });
}

bool floats_same(Arguments types) {
  const NumberType first = first_float_or_promoted(types);
  return std::all_of(types.begin(), types.end(),
                     [&](NumberType type) { return !is_floating(type) || type == first; });
}

bool norm_takes(Arguments types) {
  const Arguments parameters = types.subspan(1);
  const bool all_f32 = std::all_of(parameters.begin(), parameters.end(),
                                   [](NumberType type) { return type == NumberType::f32; });
  return floats_same(types) || (is_16_bit_float(types[0]) && all_f32);
}

bool has_integers(Arguments types) {
  return std::any_of(types.begin(), types.end(),
                     [](NumberType type) { return !is_floating(type) && !is_complex(type); });
}

bool match_holds(Match match, Arguments types) {
  switch (match) {
    case Match::equal: return all_same(types);
    case Match::equal_floats: return floats_same(types);
    case Match::norm: return norm_takes(types);
    case Match::classes: return !has_integers(types) || floats_same(types);
    default: return true;
  }
}

NumberType run_type(Match match, Arguments types) {
  switch (match) {
    case Match::promote: return promoted(types);
    case Match::classes:
      return has_integers(types) ? first_float_or_promoted(types) : promoted(types);
    case Match::second: return types[types.size() > 1 ? 1 : 0];
    case Match::equal_floats: return first_float_or_promoted(types);
    default: return types[0];
  }
}

bool has_kernel(Kernels kernels, NumberType type, DeviceType device) {
  if (kernels == Kernels::only_f32) return type == NumberType::f32;
  if (kernels == Kernels::never_16_bit) return !is_16_bit_float(type);
  if (kernels == Kernels::f16_on_gpu)
    return !is_16_bit_float(type) || (device == DeviceType::cuda && type == NumberType::f16);
  if (device != DeviceType::cpu) return true;
  return kernels == Kernels::all || !is_16_bit_float(type) ||
         (kernels == Kernels::no_f16 && type != NumberType::f16) ||
         (kernels == Kernels::no_bf16 && type != NumberType::bf16);
}

NumberType of_integers(std::string_view name, Integers integers, NumberType type) {
  check(integers != Integers::refuse, "{}: takes floating dtypes; got {}", name, name_of(type));
  if (integers == Integers::to_f32) return NumberType::f32;
  return integers == Integers::to_i64 ? NumberType::i64 : type;
}

NumberType returned(Returns returns, NumberType type) {
  if (returns.kind == Returns::Kind::fixed) return returns.type;
  return returns.kind == Returns::Kind::complex ? complex_of(type) : type;
}

}  // namespace

std::optional<ResultRule> torch_result_rule(std::string_view name) {
  return find(torch_rules(), name);
}
std::vector<std::string> torch_op_names() { return names_in(torch_rules()); }
std::optional<ResultRule> paddle_result_rule(std::string_view name) {
  return find(paddle_rules(), name);
}

ResultTypes result_types(std::string_view name, const ResultRule& rule, Arguments arguments,
                         DeviceType device) {
  check(!arguments.empty(), "{}: no dtypes given; want one for each tensor argument", name);
  const bool few = rule.leading > 0 && static_cast<size_t>(rule.leading) < arguments.size();
  const Arguments types = few ? arguments.first(static_cast<size_t>(rule.leading)) : arguments;
  check(match_holds(rule.match, types), "{}: arguments of different dtypes; got {}, want one dtype",
        name, joined(types));
  NumberType type = run_type(rule.match, types);
  const bool is_integer = !is_floating(type) && !is_complex(type);
  if (is_integer) type = of_integers(name, rule.integers, type);
  check(is_integer || rule.integers != Integers::only, "{}: takes integers; got {}", name,
        name_of(type));
  check(!is_8_bit_float(type) || rule.returns.kind != Returns::Kind::value, "{}: no kernel for {}",
        name, name_of(type));
  check(has_kernel(rule.kernels, type, device), "{}: no kernel for {} on {}", name, name_of(type),
        device == DeviceType::cpu ? "a CPU" : "a GPU");
  return {type, returned(rule.returns, type)};
}

}  // namespace booster
