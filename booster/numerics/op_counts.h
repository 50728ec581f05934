// Counts the runs of each op per dtype, with its class in the policy's lists. Also measures the
// cost of casts: paddle.amp.debugging's operator stats plus lists and casts. For one thread.
#pragma once

#include "core/autograd/observer.h"
#include "core/autograd/op_policy.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace booster::numerics {

// The dtype that the op computes in.
enum class Column : uint8_t { f16, bf16, f32, other };

struct OpRow {
  std::array<int64_t, 4> calls = {};  // by column
  std::string list;                   // name of the op's class; "no policy" if none was active
  bool unlisted = false;              // the active policy has no class for it
};

struct CastRow {
  int64_t made = 0, reused = 0;  // reused: an earlier copy was up to date
  int64_t bytes = 0;             // read and written by those made
  int64_t nanoseconds = 0;
};

class OpCounts {
 public:
  void add(const std::string& op, const OpPolicy* policy, OpClass op_class, DType dtype);
  void add(const CastEvent& cast);
  // Adds a cast of a gradient in backward.
  void add_backward_cast(const Tensor& from, const Tensor& to, int64_t nanoseconds);

  const std::map<std::string, OpRow>& ops() const { return ops_; }
  const std::map<std::string, CastRow>& casts() const { return casts_; }  // "f32 to f16"
  // Returns true if an op ran in that column.
  bool has(Column column) const;
  bool has_low_precision() const {
    return has(Column::f16) || has(Column::bf16) || ops_.contains("fp8_linear");
  }
  // Returns the ops that ran in 16 bits although the active policy does not list them, with the
  // number of calls.
  std::map<std::string, int64_t> unlisted_in_16_bits() const;

  std::string table() const;
  nlohmann::ordered_json to_json() const;

 private:
  std::map<std::string, OpRow> ops_;
  std::map<std::string, CastRow> casts_;
};

}  // namespace booster::numerics
