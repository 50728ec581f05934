// The systems that `explain` knows: the class that each gives to an op, and what the op returns.
// Only explain*.cpp and list ops need this.
#pragma once

#include "mixed_precision/ops/op_policies.h"
#include "tools/explain/explain.h"
#include "tools/explain/result_rules.h"

#include <memory>
#include <optional>

namespace booster {

struct KnownOp {
  std::string name;  // the system's spelling
  OpClass op_class = OpClass::untouched;
  std::string list = "none";
  ResultRule results = {};
  bool in_fp8 = false;                  // multiplies in 8 bits
  bool equal_before_casts = false;      // refuses mixed dtypes before an inner listed op casts
  bool keeps_state = false;             // its second argument is not cast, and widens the result
  bool casts_at_end = false;            // runs in its arguments' dtype; a listed op comes last
  std::string rule = {}, refusal = {};  // replace the class's own wording
  std::string source = {};              // of its list, if different from the system's
};

// How a system treats its op lists at one level on one device.
class System {
 public:
  virtual ~System() = default;
  // Throws for a name that is neither the system's nor ours.
  virtual KnownOp find(const std::string& op) const = 0;
  virtual std::vector<OpClassRow> rows() const { return {}; }

  NumberType lower = NumberType::f16;
  DeviceType device = DeviceType::cuda;
  bool casts_doubles = false;
  bool casts_8_bit = true;
  std::optional<NumberType> model = {};  // the dtype of a wholly converted model and its inputs
  bool keeps_batch_norm = false;         // except batch normalisation's parameters
  std::string source = "none";
};

// Throws for an unknown strategy, level, device or setting.
std::unique_ptr<System> make_system(const Question& question);

// Make one system per original: torch's autocast and its relatives (bf16, fp8, whole models), Apex,
// Paddle.
std::unique_ptr<System> make_torch_system(const Question& question);
std::unique_ptr<System> make_apex_system(const Question& question);
std::unique_ptr<System> make_paddle_system(const Question& question);

// --- shared code
// Throws with the nearest name among the system's and ours.
[[noreturn]] void no_such_op(const char* system, const std::string& op,
                             std::vector<std::string> names);
// Returns a system's name for our op; null if we have no op of that name.
const char* name_from_ours(const std::string& name, const char* (*other_name_of)(Op));
void take_row(KnownOp& op, const ListedOp* row);
// Returns one row per op, class and list, with its overloads.
std::vector<OpClassRow> rows_of(const OpTable& table);

}  // namespace booster
