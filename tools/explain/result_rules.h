// The dtype that an op returns for the dtypes in which it runs, without casts, by torch's and
// Paddle's own rules. A policy's casts are applied first.
#pragma once

#include "core/tensor/tensor.h"
#include "tools/explain/number_type.h"

#include <optional>
#include <string_view>
#include <vector>

namespace booster {

struct ResultRule {
  // How the dtypes of several arguments are combined.
  enum class Match : uint8_t {
    equal,         // all must be the same
    equal_floats,  // the floating ones must be the same; integers are indices
    promote,       // type promotion
    first,         // the first decides
    second,        // the second decides (a loss with logits: the target)
    norm,          // all the same, or 16-bit values with f32 parameters
    classes,       // with class indices (integers): equal_floats, else promotion
  };
  enum class Integers : uint8_t { keep, to_f32, to_i64, refuse, only };
  // The result dtype: the dtype of the computation, its complex counterpart, or a fixed one (none:
  // a number of the host language).
  struct Returns {
    enum class Kind : uint8_t { value, complex, fixed };
    constexpr Returns(Kind kind = Kind::value) : kind(kind) {}
    constexpr Returns(NumberType type) : kind(Kind::fixed), type(type) {}
    Kind kind;
    NumberType type = NumberType::none;
  };
  // The dtypes for which kernels are missing.
  enum class Kernels : uint8_t {
    all,
    only_f32,
    never_16_bit,
    f16_on_gpu,  // no other 16 bits
    no_16_bit,   // this and the following: only on CPUs
    no_f16,
    no_bf16,
  };

  Match match = Match::promote;
  int leading = 0;  // number of arguments that take part; 0: all
  Integers integers = Integers::keep;
  Returns returns = {};
  Kernels kernels = Kernels::all;
};

// Returns an op's rule, or nothing if torch 2.15 has no op of that name.
std::optional<ResultRule> torch_result_rule(std::string_view name);
std::vector<std::string> torch_op_names();
// Looks up Paddle's op name; nothing if Paddle 3.3 has no such op.
std::optional<ResultRule> paddle_result_rule(std::string_view name);

struct ResultTypes {
  NumberType runs_in;
  NumberType returns;
};
// Throws (the system's own error, in our wording) if the op does not take these dtypes on the
// device.
ResultTypes result_types(std::string_view name, const ResultRule& rule,
                         std::span<const NumberType> arguments, DeviceType device);

}  // namespace booster
