// The systems that `explain` answers for: which class each gives to an op, and what the op returns.
// Only explain.cpp and list ops need this.
#pragma once

#include "mixed_precision/explain.h"
#include "mixed_precision/op_policies.h"
#include "mixed_precision/result_rules.h"

#include <memory>

namespace booster {

struct KnownOp {
  std::string name;  // as the system writes it
  OpClass op_class = OpClass::untouched;
  std::string list = "none";
  ResultRule results = {};
  bool in_fp8 = false;                  // multiplies in 8 bits
  bool equal_before_casts = false;      // refuses mixed dtypes before a listed op inside casts
  std::string rule = {}, refusal = {};  // instead of the class's own words
};

// What a system does with its op lists at one level on one device.
class System {
 public:
  virtual ~System() = default;
  // Error for a name that is neither the system's nor ours.
  virtual KnownOp find(const std::string& op) const = 0;
  virtual std::vector<OpClassRow> rows() const { return {}; }

  NumberType lower = NumberType::f16;
  DeviceType device = DeviceType::cuda;
  bool casts_doubles = false;
  bool casts_8_bit = true;
  std::string source = "none";
};

// Error for a strategy, level, device or setting that does not exist.
std::unique_ptr<System> make_system(const Question& question);

}  // namespace booster
