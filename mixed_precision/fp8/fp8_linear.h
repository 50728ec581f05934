// Linear layers in 8-bit floats: y = x w^T of quantized x and w, and gradients of quantized dy.
//
//   forward   y  = x w^T + bias   x, w e4m3              in bf16, rounded once
//   backward  dx = dy w           dy e5m2 (or e4m3)      in bf16
//             dw = dy^T x                                in the weight's dtype (f32)
//             dbias = column sums of unquantized dy
//
// 8-bit units compute the products. Without them, bf16 units do, since bf16 holds every code
// exactly. Sums are f32, so both results are the same up to the order of the sums. Backward keeps
// one byte per element. A weight is quantized again when its values have changed. With delayed
// scaling this also happens after every backward pass, since its scale may have changed. For one
// thread, except the method for inference.
#pragma once

#include "mixed_precision/fp8/fp8_scaling.h"
#include "mixed_precision/interface/precision.h"

#include <memory>

namespace booster {

// A weight (out, in) to multiply in 8 bits, and its layer's name.
struct Fp8Layer {
  std::string name;
  Tensor weight;
};

class Fp8Linear : public LinearMethod {
 public:
  // `gradients` is the format of dy. All weights are on one device.
  Fp8Linear(const Fp8Recipe& recipe, Fp8Format gradients, const std::vector<Fp8Layer>& layers);

  // Handles the layers' weights and views of them (a third of an attention's input projection).
  // Other weights, and f64, are left to the default method.
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) override;
  // Quantizes the weights once. Scales are each tensor's own (current scaling), because weights
  // from a file come without the magnitudes of a training.
  std::shared_ptr<LinearMethod> for_inference() const override;

  // Returns the magnitudes of the forward tensors. For backward it returns those of all tensors,
  // since backward may have rerun parts of forward.
  Tensor maxima(Pass pass) const;
  void end_pass(Pass pass);
  // Returns a new f32. It is not 0 if any quantized tensor since forget_non_finite() was not
  // finite.
  Tensor non_finite() const;
  void forget_non_finite();
  // Returns the tensors "fc1.fp8.input.scale" and so on, layer by layer.
  StateDict state() const;

 private:
  struct Entry {
    Fp8Layer layer;
    int64_t index;
    Quantized weight;  // of the whole weight
    uint32_t weight_version = 0;
  };

  Entry* entry_of(const Tensor& weight);
  Quantized quantized_weight(Entry& entry, const Tensor& weight);
  int64_t weight_index(const Entry& entry) const;

  Fp8Recipe recipe_;
  bool is_constant_ = false;  // for inference: calls write nothing here
  std::vector<Entry> entries_;
  Tensor amaxes_;  // inputs, weights, output gradients: one of each per layer
  Fp8ScaleTable forward_;
  std::shared_ptr<Fp8ScaleTable> backward_;  // shared with the tape
};

}  // namespace booster
