#include "tools/explain/explain_torch.h"

#include "tools/explain/explain_question.h"

namespace booster {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (text.starts_with(from)) text = std::string(to) + text.substr(from.size());
  return text;
}

// Maps "torch.nn.functional.conv2d" and "aten::conv2d.padding" to conv2d, "linalg.inv" to
// linalg_inv.
std::string torch_name(std::string name) {
  for (const char* module : {"aten::", "torch.", "ops.aten.", "nn.functional.", "F.", "Tensor."})
    name = replaced(name, module, "");
  for (const char* module : {"linalg", "fft", "special"})
    name = replaced(name, std::string(module) + ".", std::string(module) + "_");
  const size_t dot = name.find('.');
  if (torch_result_rule(name)) return name;
  return torch_result_rule(name.substr(0, dot)) ? name.substr(0, dot) : name;
}

bool is_in_place(const std::string& name) {
  return name.size() > 2 && name.ends_with('_') && !name.ends_with("__");
}

}  // namespace

KnownOp TorchNamed::find(const std::string& op) const {
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

KnownOp TorchNamed::in_place(const std::string& base) const {
  KnownOp op{.name = base + "_", .results = *torch_result_rule(base)};
  if (op.results.match == ResultRule::Match::promote) op.results.match = ResultRule::Match::first;
  op.results.returns = ResultRule::Returns::Kind::value;
  op.rule = "in place: not cast";
  return op;
}

KnownOp Uncast::find(const std::string& op) const {
  KnownOp known = TorchNamed::find(op);
  known.rule = why_;
  return known;
}

std::unique_ptr<System> make_whole_model_system(const std::string& who, NumberType dtype,
                                                bool keeps_batch_norm, DeviceType device) {
  const std::string why =
      fmt::format("not cast: {} converts the model and its inputs to {}{}", who, name_of(dtype),
                  keeps_batch_norm ? ", not batch normalisation" : "");
  auto system = std::make_unique<Uncast>(why, device);
  system->model = system->lower = dtype;
  system->keeps_batch_norm = keeps_batch_norm;
  return system;
}

namespace {

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

// bf16 autocast, with linear layers that multiply in 8 bits.
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
    op.source = fp8_op_table().source();
    op.rule =
        "activations and weights in E4M3, gradients in E5M2; returns bf16; the sizes must be "
        "multiples of 16";
  }
};

std::unique_ptr<System> make_bf16(const Question& question) {
  static const std::vector<std::string> styles = {"autocast", "cast"};
  const std::string style = setting(question, "style", "autocast");
  check(has(styles, style), "style: unknown style of bf16; got {}{}", style,
        legal_names(style, styles));
  if (style == "cast")
    return make_whole_model_system("style cast", NumberType::bf16, true, device_of(question));
  return std::make_unique<TorchAutocast>(NumberType::bf16, device_of(question));
}

}  // namespace

std::unique_ptr<System> make_torch_system(const Question& question) {
  const std::string& name = question.strategy;
  const DeviceType device = device_of(question);
  check_no_level(question);
  if (name == "bf16") {
    check_settings(question, {"output_dtype", "style"});
    return make_bf16(question);
  }
  check_settings(question, {"output_dtype"});
  if (name == "fp16") return std::make_unique<TorchAutocast>(NumberType::f16, device);
  if (name == "fp8") return std::make_unique<Fp8>(device);
  if (name == "fp16_naive")
    return make_whole_model_system("fp16_naive", NumberType::f16, false, device);
  if (name == "fp64") return make_whole_model_system("fp64", NumberType::f64, false, device);
  return std::make_unique<Uncast>("not cast: fp32 leaves dtypes alone", device);
}

}  // namespace booster
