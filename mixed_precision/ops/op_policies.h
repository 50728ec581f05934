// Builds the strategies' op policies from the op tables: torch autocast (declared in precision.h),
// Apex O1, Paddle's levels.
// OpClass documents what each class does to arguments.
#pragma once

#include "mixed_precision/interface/precision.h"
#include "mixed_precision/ops/op_table.h"

namespace booster {

// Functions that a program registers before it initialises Apex, by our op names or torch's.
// Unknown names throw.
struct ApexOverrides {
  std::vector<std::string> half = {}, floating = {}, promote = {};
};
// Returns Apex's O1: f16; f64 is cast like any other floating dtype. A function registered as half
// or float is wrapped inside the lists' own wrapper and so takes precedence. If a function
// registered as promote is also on a list, the list casts its arguments first. Throws for a name
// that is both half and float.
OpPolicy apex_o1_policy(DeviceType device, const ApexOverrides& overrides = {});

enum class PaddleLevel : uint8_t { O0, OD, O1, O2 };
// Returns the level of "O1" or "o1"; throws with the legal names for others.
PaddleLevel paddle_level(const std::string& name);

struct PaddleLists {
  std::vector<std::string> white = {}, black = {};  // custom lists, in Paddle's op names
  bool use_promote = true;    // O2: false restores Paddle <= 2.4: all but black in lower
  bool static_graph = false;  // O1: gray ops follow their arguments' producers; unlisted: f32
};
// Returns names in custom lists that have no effect although Paddle's own lists hold them. Example:
// matmul, because Paddle's op looks up matmul_v2.
std::vector<std::string> ineffective_names(const PaddleLists& lists);
// Paddle's decision for an op by its Paddle name, in the dynamic or the static graph.
class PaddleRules {
 public:
  // Throws for a name on both custom lists.
  PaddleRules(PaddleLevel level, DType lower, const PaddleLists& lists = {});

  OpClass class_of(std::string_view name) const;
  // Returns whether an op runs in f32 only because it has no 16-bit GPU kernel.
  bool lacks_kernel(std::string_view name) const;
  // Returns "white", "white fp16", "black", "extra black", "custom white", "custom black" or
  // "unlisted"; for the static graph also "white fp16 static" and "gray static".
  std::string_view list_of(std::string_view name) const;

 private:
  OpClass listed_class(std::string_view name) const;

  PaddleLevel level_;
  DType lower_;
  PaddleLists lists_;
};
OpPolicy paddle_policy(PaddleLevel level, DType lower, const PaddleLists& lists = {},
                       DeviceType device = DeviceType::cpu);

}  // namespace booster
