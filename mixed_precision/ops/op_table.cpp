#include "mixed_precision/ops/op_table.h"

#include <algorithm>
#include <array>

namespace booster {
namespace {

struct OtherNames {
  const char* torch;
  const char* paddle;
};

// Returns the rows of our_ops.def; an op without a row keeps its own name.
constexpr std::array<OtherNames, op_count> make_names() {
  std::array<OtherNames, op_count> names = {
#define OP(name) OtherNames{#name, #name},
#include "core/autograd/op_names.def"
#define UNARY(name, ...) OtherNames{#name, #name},
#define BINARY(name, ...) OtherNames{#name, #name},
#include "kernels/elementwise.def"
  };
#define OURS(op, torch, paddle) names[static_cast<int>(Op::op)] = {torch, paddle};
#include "mixed_precision/ops/tables/our_ops.def"
  return names;
}

constexpr std::array<OtherNames, op_count> all_names = make_names();

const OtherNames& names_of(Op op) { return all_names[static_cast<size_t>(op)]; }

ListedOp parse(std::string_view name, const OpTable::Group& group) {
  const size_t dot = name.find('.');
  const bool overloaded = dot != std::string_view::npos;
  return {std::string(name.substr(0, dot)), std::string(overloaded ? name.substr(dot + 1) : ""),
          group.op_class, group.list};
}

}  // namespace

OpTable::OpTable(std::string source, std::initializer_list<Group> groups)
    : source_(std::move(source)) {
  for (const Group& group : groups) {
    for (std::string_view rest = group.names; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      ops_.push_back(parse(rest.substr(0, end), group));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

const ListedOp* OpTable::find(std::string_view name) const {
  for (const ListedOp& op : ops_) {
    const bool is_whole = op.name == name && op.overload != "deprecated";
    if (is_whole || (!op.overload.empty() && op.name + "." + op.overload == name)) return &op;
  }
  return nullptr;
}

const OpTable& torch_op_table(DeviceType device) {
  static const OpTable cuda("PyTorch 2.15, aten/src/ATen/autocast_mode.h, AutocastCUDA",
                            {
#define OPS(op_class, list, names) {OpClass::op_class, list, names},
#include "mixed_precision/ops/tables/torch_cuda.def"
                            });
  static const OpTable cpu("PyTorch 2.15, aten/src/ATen/autocast_mode.cpp, AutocastCPU",
                           {
#define OPS(op_class, list, names) {OpClass::op_class, list, names},
#include "mixed_precision/ops/tables/torch_cpu.def"
                           });
  return device == DeviceType::cuda ? cuda : cpu;
}

const OpTable& apex_op_table() {
  static const OpTable table("NVIDIA Apex e13873de, apex/amp/lists",
                             {
#define OPS(op_class, list, names) {OpClass::op_class, list, names},
#include "mixed_precision/ops/tables/apex_o1.def"
                             });
  return table;
}

const OpTable& paddle_op_table() {
  static const OpTable table("PaddlePaddle 3.3, python/paddle/amp/amp_lists.py",
                             {
#define OPS(op_class, list, names) {OpClass::op_class, list, names},
#include "mixed_precision/ops/tables/paddle.def"
                             });
  return table;
}

const OpTable& fp8_op_table() {
  static const OpTable table("Transformer Engine's fp8 recipes: linear layers alone",
                             {
#define OPS(op_class, list, names) {OpClass::op_class, list, names},
#include "mixed_precision/ops/tables/fp8.def"
                             });
  return table;
}

const char* torch_name_of(Op op) { return names_of(op).torch; }
const char* paddle_name_of(Op op) { return names_of(op).paddle; }

}  // namespace booster
