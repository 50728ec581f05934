// The op lists of torch, Apex, Paddle and fp8 training as they stand in the originals, in the
// originals' names: data files in tables/. Policies, `booster list ops` and `booster explain`
// are all made from them.
//
// Tables are made once and never change; any thread may read them.
#pragma once

#include "core/autograd/op_policy.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct ListedOp {
  std::string name;       // "softmax"
  std::string overload;   // of that name, "int"; empty for the default one
  OpClass op_class;       // what its list means for the arguments
  std::string_view list;  // the original's name of the list, "fp32_set_opt_dtype"

  // On no list itself: an op inside it is.
  bool is_composed() const { return list.starts_with("composed"); }
};

// Paddle's fused_attention stands on two lists: `find` gives the first, `ops` has both.
class OpTable {
 public:
  struct Group {
    OpClass op_class;
    std::string_view list;
    std::string_view names;  // "conv1d conv1d.padding ..."
  };

  OpTable(std::string source, std::initializer_list<Group> groups);

  // Where the lists are from, with the version.
  const std::string& source() const { return source_; }
  const std::vector<ListedOp>& ops() const { return ops_; }
  // The first row of that name, or null.
  const ListedOp* find(std::string_view name) const;

 private:
  std::string source_;
  std::vector<ListedOp> ops_;
};

const OpTable& torch_op_table(DeviceType device);
const OpTable& apex_op_table();
const OpTable& paddle_op_table();
const OpTable& fp8_op_table();

// What the systems call an op of ours; where they compose it of several, the one that decides.
const char* torch_name_of(Op op);
const char* paddle_name_of(Op op);

}  // namespace booster
