#include "mixed_precision/explain_systems.h"

#include <algorithm>

namespace booster {
namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void no_such_op(const char* system, const std::string& op, Names names) {
  for (int i = 0; i < op_count; ++i) names.emplace_back(name_of(static_cast<Op>(i)));
  const std::string near = nearest_name(op, names);
  fail("op: no op of {}'s or ours has this name; got {}{}", system, op,
       near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (text.starts_with(from)) text = std::string(to) + text.substr(from.size());
  return text;
}

// "torch.nn.functional.conv2d" and "aten::conv2d.padding" are conv2d, "linalg.inv" linalg_inv.
std::string torch_name(std::string name) {
  for (const char* module : {"aten::", "torch.", "ops.aten.", "nn.functional.", "F.", "Tensor."})
    name = replaced(name, module, "");
  for (const char* module : {"linalg", "fft", "special"})
    name = replaced(name, std::string(module) + ".", std::string(module) + "_");
  const size_t dot = name.find('.');
  return torch_result_rule(name.substr(0, dot)) ? name.substr(0, dot) : name;
}

const char* name_from_ours(const std::string& name, const char* (*other_name_of)(Op)) {
  for (int i = 0; i < op_count; ++i)
    if (name == name_of(static_cast<Op>(i))) return other_name_of(static_cast<Op>(i));
  return nullptr;
}

bool is_in_place(const std::string& name) {
  return name.size() > 2 && name.ends_with('_') && !name.ends_with("__");
}

// Finds ops by torch's names; what lists mean is for the systems that follow.
class TorchNamed : public System {
 public:
  KnownOp find(const std::string& op) const override {
    std::string name = torch_name(op);
    if (!torch_result_rule(name) && is_in_place(name)) {
      const std::string base = name.substr(0, name.size() - 1);
      if (torch_result_rule(base)) return in_place(base);
    }
    const char* torch = name_from_ours(op, torch_name_of);
    if (torch && !torch_result_rule(name)) name = torch;
    const auto results = torch_result_rule(name);
    if (!results) no_such_op("torch", op, torch_op_names());
    KnownOp known{.name = name, .results = *results};
    classify(known);
    return known;
  }

 protected:
  // Sets class and list of a named op.
  virtual void classify(KnownOp&) const {}

  // The result stays in the first argument's memory and dtype.
  virtual KnownOp in_place(const std::string& base) const {
    KnownOp op{.name = base + "_", .results = *torch_result_rule(base)};
    if (op.results.match == ResultRule::Match::promote)
      op.results.match = ResultRule::Match::first;
    op.results.returns = ResultRule::Returns::value;
    op.rule = "in place: not cast";
    return op;
  }
};

// What nothing is cast in: fp32, fp16_naive, and Apex's levels that patch no functions.
class Uncast final : public TorchNamed {
 public:
  Uncast(std::string why, DeviceType device_type) : why_(std::move(why)) { device = device_type; }
  KnownOp find(const std::string& op) const override {
    KnownOp known = TorchNamed::find(op);
    known.rule = why_;
    return known;
  }

 private:
  std::string why_;
};

void take_row(KnownOp& op, const ListedOp* row) {
  if (!row) return;
  op.op_class = row->op_class;
  op.list = row->is_composed() ? "composed of listed ops" : std::string(row->list);
  op.equal_before_casts = row->list == "composed of equals";
}

// A row per op, class and list, with its overloads.
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

class TorchAutocast : public TorchNamed {
 public:
  TorchAutocast(NumberType lower_type, DeviceType device_type)
      : table_(torch_op_table(device_type)) {
    lower = lower_type;
    device = device_type;
    source = table_.source();
  }
  std::vector<OpClassRow> rows() const override { return rows_of(table_); }

 protected:
  void classify(KnownOp& op) const override { take_row(op, table_.find(op.name)); }

 private:
  const OpTable& table_;
};

// bf16 autocast around layers that multiply in 8 bits.
class Fp8 final : public TorchAutocast {
 public:
  explicit Fp8(DeviceType device_type) : TorchAutocast(NumberType::bf16, device_type) {}

  std::vector<OpClassRow> rows() const override {
    auto rows = rows_of(fp8_op_table());
    for (const OpClassRow& row : TorchAutocast::rows())
      if (!fp8_op_table().find(row.op)) rows.push_back(row);
    return rows;
  }

 protected:
  void classify(KnownOp& op) const override {
    TorchAutocast::classify(op);
    const ListedOp* row = fp8_op_table().find(op.name);
    if (!row) return;
    take_row(op, row);
    op.in_fp8 = true;
    op.rule = "activations and weights in E4M3, gradients in E5M2; returns bf16; the sizes must be "
              "multiples of 16";
  }
};

// "a,b" or, as in a config, ["a", "b"].
Names split(const std::string& text) {
  Names names(1);
  for (const char letter : text) {
    if (letter == ',')
      names.emplace_back();
    else if (std::string_view("[]\"' ").find(letter) == std::string_view::npos)
      names.back() += letter;
  }
  std::erase(names, "");
  return names;
}

using Settings = std::map<std::string, std::string>;

std::string setting(const Settings& settings, const std::string& name,
                    const std::string& value = "") {
  const auto found = settings.find(name);
  return found == settings.end() ? value : found->second;
}

class ApexO1 final : public TorchNamed {
 public:
  ApexO1(DeviceType device_type, const Settings& settings)
      : half_(split(setting(settings, "half_functions"))),
        floating_(split(setting(settings, "float_functions"))),
        promote_(split(setting(settings, "promote_functions"))) {
    device = device_type;
    casts_doubles = true;
    source = apex_op_table().source();
    for (const Names* names : {&half_, &floating_, &promote_})
      for (const std::string& name : *names)
        if (!torch_result_rule(name)) no_such_op("torch", name, torch_op_names());
  }
  std::vector<OpClassRow> rows() const override { return rows_of(apex_op_table()); }

 protected:
  // A registered function is wrapped inside the lists' wrapper: see apex_o1_policy.
  void classify(KnownOp& op) const override {
    take_row(op, apex_op_table().find(op.name));
    const bool half = has(half_, op.name), floating = has(floating_, op.name);
    if (half || floating) {
      op.op_class = half ? OpClass::lower_precision : OpClass::fp32;
      op.list = half ? "register_half_function" : "register_float_function";
    } else if (op.op_class == OpClass::untouched && has(promote_, op.name)) {
      op.op_class = OpClass::widen_pair;
      op.list = "register_promote_function";
    }
    if (device == DeviceType::cpu) leave_alone(op);
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
  // Apex casts CUDA tensors only; what it refuses, it refuses anywhere.
  static void leave_alone(KnownOp& op) {
    if (op.op_class == OpClass::banned_lower) return;
    op.op_class = OpClass::untouched;
    op.rule = "not cast: Apex casts CUDA tensors only";
  }

  Names half_, floating_, promote_;
};

class Paddle final : public System {
 public:
  Paddle(PaddleLevel level, DType lower_type, DeviceType device_type, const PaddleLists& lists)
      : rules_(level, lower_type, lists) {
    lower = lower_type == DType::f16 ? NumberType::f16 : NumberType::bf16;
    device = device_type;
    casts_8_bit = false;
    source = paddle_op_table().source();
  }

  KnownOp find(const std::string& op) const override {
    std::string name = replaced(op, "paddle.", "");
    const char* paddle = name_from_ours(op, paddle_name_of);
    if (paddle && !paddle_result_rule(name)) name = paddle;
    const auto results = paddle_result_rule(name);
    if (!results) no_such_op("Paddle", op, paddle_op_names());
    KnownOp known{.name = name, .results = *results};
    const std::string_view list = rules_.list_of(name);
    known.list = list == "unlisted" ? "none" : std::string(list);
    known.op_class = rules_.class_of(name);
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
    return rows;
  }

 private:
  PaddleRules rules_;
};

DeviceType device_of(const Question& question) {
  const std::string& device = question.device;
  check(device.empty() || device == "cuda" || device == "cpu", "device: unknown; got {}{}", device,
        legal_names(device, {"cuda", "cpu"}));
  return device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
}

void check_settings(const Question& question, const Names& legal) {
  for (const auto& [name, value] : question.settings)
    check(has(legal, name), "--set: {} has no such setting; got {}{}", question.strategy, name,
          legal_names(name, legal));
}

void check_no_level(const Question& question) {
  check(question.level.empty(), "level: {} has no levels; got {}", question.strategy,
        question.level);
}

bool boolean(const std::string& name, const std::string& value) {
  check(value == "true" || value == "false", "{}: not a truth value; got {}, want true or false",
        name, value);
  return value == "true";
}

std::unique_ptr<System> make_apex(const Question& question) {
  static const Names levels = {"O0", "O1", "O2", "O3"};
  check_settings(question, {"half_functions", "float_functions", "promote_functions"});
  const std::string level = question.level.empty() ? "O1" : question.level;
  check(has(levels, level), "level: unknown level of fp16_apex; got {}{}", level,
        legal_names(level, levels));
  if (level == "O1") return std::make_unique<ApexO1>(device_of(question), question.settings);
  const std::string why = level == "O0"
                              ? "not cast: O0 is f32 and patches no functions"
                              : "not cast: " + level + " patches no functions; the model and its "
                                                       "inputs are f16";
  return std::make_unique<Uncast>(why, device_of(question));
}

std::unique_ptr<System> make_paddle(const Question& question) {
  const Settings& settings = question.settings;
  check_settings(question, {"custom_white_list", "custom_black_list", "use_promote", "dtype"});
  const PaddleLists lists{split(setting(settings, "custom_white_list")),
                          split(setting(settings, "custom_black_list")),
                          boolean("use_promote", setting(settings, "use_promote", "true"))};
  const NumberType lower = number_type_named(setting(settings, "dtype", "float16"));
  check(is_16_bit_float(lower), "dtype: must be float16 or bfloat16; got {}", name_of(lower));
  const PaddleLevel level = paddle_level(question.level.empty() ? "O1" : question.level);
  return std::make_unique<Paddle>(level, lower == NumberType::f16 ? DType::f16 : DType::bf16,
                                  device_of(question), lists);
}

template <class Make>
std::unique_ptr<System> without_levels(const Question& question, const Make& make) {
  check_no_level(question);
  check_settings(question, {"output_dtype"});
  return make(device_of(question));
}

std::unique_ptr<System> make_plain(const Question& question) {
  const std::string& name = question.strategy;
  return without_levels(question, [&](DeviceType device) -> std::unique_ptr<System> {
    if (name == "fp16") return std::make_unique<TorchAutocast>(NumberType::f16, device);
    if (name == "bf16") return std::make_unique<TorchAutocast>(NumberType::bf16, device);
    if (name == "fp8") return std::make_unique<Fp8>(device);
    if (name == "fp16_naive")
      return std::make_unique<Uncast>("not cast: the whole model and its inputs are f16", device);
    return std::make_unique<Uncast>("not cast: fp32 leaves dtypes alone", device);
  });
}

}  // namespace

std::vector<std::string> explained_strategies() {
  return {"fp32", "fp16", "fp16_apex", "fp16_naive", "fp16_paddle", "bf16", "fp8"};
}

std::unique_ptr<System> make_system(const Question& question) {
  const Names strategies = explained_strategies();
  check(has(strategies, question.strategy), "strategy: unknown name; got {}{}", question.strategy,
        legal_names(question.strategy, strategies));
  if (question.strategy == "fp16_apex") return make_apex(question);
  if (question.strategy == "fp16_paddle") return make_paddle(question);
  return make_plain(question);
}

}  // namespace booster
