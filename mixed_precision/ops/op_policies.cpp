#include "mixed_precision/ops/op_policies.h"

#include "mixed_precision/ops/paddle_ops.h"

#include <algorithm>
#include <iterator>

namespace booster {
namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class ClassOf>
void fill(OpPolicy& policy, const ClassOf& class_of) {
  for (int i = 0; i < op_count; ++i) policy.set(static_cast<Op>(i), class_of(static_cast<Op>(i)));
}

OpClass class_in(const OpTable& table, std::string_view name) {
  const ListedOp* op = table.find(name);
  return op ? op->op_class : OpClass::untouched;
}

const char* autocast_name(DType lower) { return lower == DType::f16 ? "fp16" : "bf16"; }

void check_lower(const char* what, DType lower) {
  check(is_16_bit(lower), "{}: lower dtype must be f16 or bf16; got {}", what, name_of(lower));
}

}  // namespace

OpPolicy torch_autocast_policy(DeviceType device, DType lower) {
  check_lower("autocast", lower);
  OpPolicy policy{.device = device, .lower = lower, .name = autocast_name(lower)};
  const OpTable& table = torch_op_table(device);
  fill(policy, [&](Op op) {
    const ListedOp* listed = table.find(torch_name_of(op));
    // Its products are our ops, which are cast. Its state is not cast.
    if (listed && listed->list == "composed with a state") return OpClass::untouched;
    return listed ? listed->op_class : OpClass::untouched;
  });
  return policy;
}

namespace {

// Returns all of our ops that a name can mean: our own name, or torch's.
std::vector<Op> ops_called(const std::string& name) {
  std::vector<Op> ops;
  Names legal;
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    if (name == name_of(op) || name == torch_name_of(op)) ops.push_back(op);
    legal.push_back(name_of(op));
  }
  check(!ops.empty(), "register function: no such op; got {}{}", name, legal_names(name, legal));
  return ops;
}

}  // namespace

OpPolicy apex_o1_policy(DeviceType device, const ApexOverrides& overrides) {
  OpPolicy policy{
      .device = device, .lower = DType::f16, .casts_doubles = true, .name = "fp16_apex O1"};
  fill(policy, [&](Op op) { return class_in(apex_op_table(), torch_name_of(op)); });
  for (const std::string& name : overrides.promote)
    for (const Op op : ops_called(name))
      if (policy[op] == OpClass::untouched) policy.set(op, OpClass::widen_pair);
  for (const std::string& name : overrides.floating) {
    check(!has(overrides.half, name),
          "register function: {} is registered both as half and as float", name);
    for (const Op op : ops_called(name)) policy.set(op, OpClass::fp32);
  }
  for (const std::string& name : overrides.half)
    for (const Op op : ops_called(name)) policy.set(op, OpClass::lower_precision);
  return policy;
}

PaddleLevel paddle_level(const std::string& name) {
  static const Names names = {"O0", "OD", "O1", "O2"};
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == upper) return static_cast<PaddleLevel>(i);
  fail("level: unknown level; got {}{}", name, legal_names(name, names));
}

namespace {

// Returns true for ops whose statistics stay f32: only the first argument decides and is cast.
bool is_normalisation(std::string_view name) {
  return name == "batch_norm" || name == "layer_norm" || name == "sync_batch_norm";
}

bool counts(const ListedOp& op, PaddleLevel level, DType lower, bool static_graph) {
  if (op.list == "white") return true;
  if (op.list == "white fp16 static") return static_graph && lower == DType::f16;
  if (op.list == "gray static") return static_graph && level == PaddleLevel::O1;
  if (op.list == "white fp16") return static_graph || lower == DType::f16;
  if (op.list == "black") return level == PaddleLevel::O1;
  return op.list == "extra black" && (level == PaddleLevel::O1 || level == PaddleLevel::O2);
}

bool is_dead(const std::string& name) {
  const auto& ops = paddle_op_table().ops();
  return std::any_of(ops.begin(), ops.end(),
                     [&](const ListedOp& op) { return op.list == "dead" && op.name == name; });
}

// Throws for unknown names. Paddle silently accepts any name, such as `add` for elementwise_add,
// without effect. Names on Paddle's own lists are valid here even if they have no effect: see
// ineffective_names.
void check_custom(const char* list, const Names& names) {
  for (const std::string& name : names) {
    if (is_paddle_op(name) || is_dead(name)) continue;
    for (int i = 0; i < op_count; ++i) {
      const Op op = static_cast<Op>(i);
      check(name != name_of(op), "{}: not one of Paddle's op names; got {} (did you mean {}?)",
            list, name, paddle_name_of(op));
    }
    Names legal = paddle_op_names();
    std::erase_if(legal, is_dead);
    const std::string near = nearest_name(name, legal);
    fail("{}: not one of Paddle's op names; got {}{}", list, name,
         near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
  }
}

void check_custom(const PaddleLists& lists) {
  check_custom("custom_white_list", lists.white);
  check_custom("custom_black_list", lists.black);
  for (const std::string& name : lists.white)
    check(!has(lists.black, name), "custom_white_list: {} is on custom_black_list too", name);
}

}  // namespace

std::vector<std::string> ineffective_names(const PaddleLists& lists) {
  Names dead;
  for (const Names* names : {&lists.white, &lists.black})
    std::ranges::copy_if(*names, std::back_inserter(dead), is_dead);
  return dead;
}

PaddleRules::PaddleRules(PaddleLevel level, DType lower, const PaddleLists& lists)
    : level_(level), lower_(lower), lists_(lists) {
  check_lower("paddle", lower);
  check_custom(lists);
}

std::string_view PaddleRules::list_of(std::string_view name) const {
  if (level_ == PaddleLevel::O0) return "unlisted";
  if (has(lists_.white, name)) return "custom white";
  if (has(lists_.black, name)) return "custom black";
  for (const ListedOp& op : paddle_op_table().ops())
    if (op.name == name && counts(op, level_, lower_, lists_.static_graph)) return op.list;
  return "unlisted";
}

OpClass PaddleRules::class_of(std::string_view name) const {
  return lacks_kernel(name) ? OpClass::fp32 : listed_class(name);
}

bool PaddleRules::lacks_kernel(std::string_view name) const {
  const OpClass listed = listed_class(name);
  return listed != OpClass::untouched && listed != OpClass::fp32 &&
         paddle_lacks_gpu_kernel(name, lower_);
}

OpClass PaddleRules::listed_class(std::string_view name) const {
  if (level_ == PaddleLevel::O0) return OpClass::untouched;
  const std::string_view list = list_of(name);
  const bool norm = is_normalisation(name);
  const OpClass lower = norm ? OpClass::lower_first : OpClass::lower_precision;
  if (list.find("white") != list.npos) return lower;
  if (list.find("black") != list.npos || level_ == PaddleLevel::OD) return OpClass::fp32;
  if (level_ == PaddleLevel::O2 && !lists_.use_promote) return lower;
  if (level_ == PaddleLevel::O1 && lists_.static_graph) {
    if (list != "gray static") return OpClass::fp32;
    return norm ? OpClass::as_first_made : OpClass::as_made;
  }
  return norm ? OpClass::lower_unless_first_fp32 : OpClass::lower_unless_fp32;
}

OpPolicy paddle_policy(PaddleLevel level, DType lower, const PaddleLists& lists,
                       DeviceType device) {
  static constexpr const char* names[] = {"fp16_paddle O0", "fp16_paddle OD", "fp16_paddle O1",
                                          "fp16_paddle O2"};
  OpPolicy policy{.device = device,
                  .lower = lower,
                  .cache_casts = false,
                  .bias_apart = true,
                  .asks_who_made = level == PaddleLevel::O1 && lists.static_graph,
                  .name = names[static_cast<int>(level)]};
  const PaddleRules rules(level, lower, lists);
  fill(policy, [&](Op op) { return rules.class_of(paddle_name_of(op)); });
  return policy;
}

}  // namespace booster
