// The rule by which a loss scale grows and backs off, as plain data. Its fields are the differences
// between the scalers of torch, Apex, Paddle, Colossal-AI, Megatron and DeepSpeed.
#pragma once

#include <cstdint>

namespace booster::kernels {

// When the count of bad steps returns to 0, apart from AfterBackoff.
enum class Refill : uint8_t { never, on_growth, every_finite_step };

// The effect of a back-off on the count of bad steps.
enum class AfterBackoff : uint8_t {
  forget,  // restarts at 0
  count,   // continues, so that every further bad step backs off until a refill
  hold,    // stays one below `hysteresis`, with the same effect
};

// Why the scale was kept although the original implementation would have made it useless.
enum class ScaleRefusal : int32_t {
  none,
  infinite,    // growth beyond f32
  collapsed,   // a scale whose inverse is infinite in f32
  at_minimum,  // an overflow at the smallest scale, where the original ends training
};

// A step is bad if a gradient is not finite, else good. A product of scale and factor is computed
// in f64 and rounded once to the storage type of the scale.
struct LossScalePolicy {
  double init = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row before the scale grows; <= 0: never
  int64_t hysteresis = 1;          // bad steps before the scale backs off
  Refill refill = Refill::every_finite_step;
  AfterBackoff after_backoff = AfterBackoff::forget;
  double minimum = 0;               // lower limit of back-off; 0: no limit
  double maximum = 0;               // upper limit of growth; 0: no limit
  bool dynamic = true;              // false: the scale stays constant
  bool skips = true;                // false: bad steps are applied like good ones
  bool f64_scale = false;           // the scale is stored in f64 instead of f32
  bool f32_factors = false;         // growth and backoff are rounded to f32 before use
  bool growth_guard = false;        // a growth to infinity is silently omitted
  bool exact_hysteresis = false;    // backs off only when bad steps == hysteresis, not beyond it
  bool free_first_step = false;     // the first good step ever, or after a bad one, does not count
  bool counts_when_static = false;  // if the scale is static, every step counts as good
  bool ends_at_minimum = false;     // refuses a back-off at the minimum
  bool refuses = true;              // false: goes to infinity or 0 as originals do (simulations)
};

struct LossScaleState {
  double scale = 65536;
  int64_t good = 0;                 // good steps counted towards growth
  int64_t bad = 0;                  // bad steps counted towards back-off
  ScaleRefusal refused = ScaleRefusal::none;  // the last refusal
  int32_t refusals = 0;
};

}  // namespace booster::kernels
