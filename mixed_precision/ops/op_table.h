// The original op lists of torch, Apex, Paddle and fp8 training, under the original names: data
// files in tables/. Policies, `booster list ops` and `booster explain` derive from them.
//
// Tables are built once and never change; any thread may read them.
#pragma once

#include "core/autograd/op_policy.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct ListedOp {
  std::string name;       // "softmax"
  std::string overload;   // overload, such as "int"; empty for the default one
  OpClass op_class;       // its list's effect on the arguments
  std::string_view list;  // the original's name of the list, "fp32_set_opt_dtype"

  // Returns true if the op itself is on no list, but an op inside it is.
  bool is_composed() const { return list.starts_with("composed"); }
};

// Paddle's fused_attention is on two lists: `find` returns the first, `ops` has both.
class OpTable {
 public:
  struct Group {
    OpClass op_class;
    std::string_view list;
    std::string_view names;  // "conv1d conv1d.padding ..."
  };

  OpTable(std::string source, std::initializer_list<Group> groups);

  // Returns the lists' source, with its version.
  const std::string& source() const { return source_; }
  const std::vector<ListedOp>& ops() const { return ops_; }
  // Returns the first row of that name, or null.
  const ListedOp* find(std::string_view name) const;

 private:
  std::string source_;
  std::vector<ListedOp> ops_;
};

const OpTable& torch_op_table(DeviceType device);
const OpTable& apex_op_table();
const OpTable& paddle_op_table();
const OpTable& fp8_op_table();

// Return the systems' names for our op. If a system composes it of several ops, the name is the one
// of the op that decides the dtype.
const char* torch_name_of(Op op);
const char* paddle_name_of(Op op);

}  // namespace booster
