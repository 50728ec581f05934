// The scales that convert tensors to 8-bit floats: a table with one entry per tensor of a model.
//
// Delayed scaling quantizes with a scale computed from the largest magnitudes of earlier passes. It
// records the current magnitude, and computes the next scales when the pass ends. Current scaling
// reads each tensor first. All values stay on the device and the host reads none. For one thread.
// Source: NVIDIA Transformer Engine's recipes DelayedScaling and Float8CurrentScaling.
#pragma once

#include "core/autograd/observer.h"
#include "core/nn/module.h"
#include "kernels/arguments/fp8.h"

namespace booster {

// How scales are computed.
struct Fp8Recipe {
  bool delayed = true;
  // delayed
  int64_t history_length = 1024;
  bool most_recent = false;  // else the largest in the history
  int64_t margin = 0;        // scales are divided by 2^margin
  // current
  bool power_of_two = false;
  double eps = 0;  // lower bound of an amax
};

// A tensor in 8-bit floats: its elements are the codes' values times *inverse_scale.
struct Quantized {
  Tensor codes;          // u8
  Tensor inverse_scale;  // one f32
  Fp8Format format = Fp8Format::e4m3;
};

class Fp8ScaleTable {
 public:
  // Makes an entry for each name. `amaxes` (f32, one per name) may be a view of a larger tensor.
  Fp8ScaleTable(const Fp8Recipe& recipe, Fp8Format format, std::vector<std::string> names,
                Tensor amaxes);

  // Quantizes x (f32, f16 or bf16) as the table's i-th tensor; values out of range saturate. With
  // `note`, the magnitude counts for the next scale.
  Quantized quantize(const Tensor& x, int64_t i, bool note);
  // Computes the next scales from the recorded magnitudes, and clears the magnitudes. A tensor
  // keeps its scale if it was not used, or if its magnitude was 0 or not finite.
  void end_pass();
  // Returns one f32: not 0 if a magnitude since forget_non_finite() was not finite.
  const Tensor& non_finite() const { return non_finite_; }
  void forget_non_finite() { non_finite_.zero_(); }

  // Returns the i-th tensor's state for a resumed run. It shares memory with the table.
  StateDict state(int64_t i, const std::string& prefix) const;

 private:
  Tensor current_scale(const Tensor& x) const;
  void tell(OpObserver& observer, const Tensor& x, const Tensor& current, int64_t i) const;

  Fp8Recipe recipe_;
  Fp8Format format_;
  std::vector<std::string> names_;
  Tensor amaxes_, scales_, history_, cursors_, non_finite_;
};

}  // namespace booster
