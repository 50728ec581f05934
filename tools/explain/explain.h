// Explains in which dtype an op would run under a strategy, and why. Describes the original system
// (torch's autocast, Apex, Paddle) from its op lists and its result dtypes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace booster {

// Returns the names of the strategies that explain() knows.
std::vector<std::string> explained_strategies();

struct Question {
  std::string op = {};  // in the original's names (torch's, Paddle's) or ours
  std::vector<std::string> dtypes = {};  // of its tensor arguments, in order: "f16", "float16"
  std::string strategy = {};
  std::string level = {};   // fp16_apex: O0 to O3; fp16_paddle: O0, OD, O1, O2; empty: O1
  std::string device = {};  // "cuda" (if empty) or "cpu": where the tensors are
  // fp16_paddle: custom_white_list, custom_black_list (comma-separated names), use_promote,
  // dtype (float16 or bfloat16), static_graph (O1 as in Fleet; all arguments count as produced by
  // ops). fp16_apex: half_functions, float_functions, promote_functions.
  // fp16, bf16: output_dtype, an explicit dtype argument of the op. bf16: style.
  std::map<std::string, std::string> settings = {};
};

struct Explanation {
  std::string op = {};
  std::string device = {};  // the device of these rules: "cuda", "cpu"
  std::vector<std::string> arguments = {};
  std::string runs_in = {};  // the dtype of the computation
  std::string returns = {};  // the first result's dtype; "none" if that is not a tensor
  std::string in_model = {};  // the same, in a model that the strategy converts; else empty
  std::string rule = {};     // what the strategy does to the arguments, in words
  std::string list = {};     // the original's name of the op's list; "none"
  std::string source = {};   // the source of that list
  std::string error = {};    // the failure, instead of runs_in and returns
};

// Returns "cuda" if `device` is empty; throws for an unknown device.
std::string explained_device(const std::string& device);

// Throws for an unknown op, dtype, strategy, level, device or setting.
Explanation explain(const Question& question);

// A row of `booster list ops`.
struct OpClassRow {
  std::string op;
  std::vector<std::string> overloads;  // "" is the default overload
  std::string op_class;
  std::string list;
  std::string source;
};
// Returns all ops on a strategy's lists, including those that its settings add; empty for a
// strategy without lists. `question` names no op. Throws as above.
std::vector<OpClassRow> listed_ops(const Question& question);

}  // namespace booster
