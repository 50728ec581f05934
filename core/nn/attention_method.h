// How attention is computed: by the kernels, on keys that are all here, or by a method that takes
// their place, where ranks have some of the tokens each.
#pragma once

#include "core/nn/functional.h"
#include "kernels/arguments/view.h"

#include <memory>

namespace booster {

// Of one call, for both passes.
struct AttentionCall {
  Tensor mask;
  double scale = 1, dropout = 0;
  bool causal = false;
  kernels::RandomPosition position;  // of what is dropped
};

struct AttentionResult {
  Tensor out;      // (batch, heads, queries, head size), in memory of (batch, queries, heads, size)
  Tensor log_sum;  // (batch, heads, queries, 2), as the kernels have it; f32, or f64 for f64
};

// q, k and v are (batch, heads, tokens, head size), dense along the last dimension, of one dtype;
// nothing is on the tape.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  // How many runs of keys, each as long as the keys here, a query sees.
  virtual int runs_of_keys() const { return 1; }
  virtual AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const AttentionCall& call) const;
  // Gradients of q, k and v, from that of the result, into dq, dk and dv.
  virtual void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& g,
                        const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& result, const AttentionCall& call) const;

 protected:
  AttentionMethod() = default;
};

// The kernels.
std::shared_ptr<const AttentionMethod> plain_attention();
// What this thread's attention() and attention_packed() use from now on; null: the kernels.
void set_attention_method(std::shared_ptr<const AttentionMethod> method);

// The gradient of call.mask, added to the scores, from that of the result `out`; what is dropped is
// what the kernels drop. Holds all scores, in f32 or f64.
Tensor mask_gradient(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& out, const AttentionCall& call);

// Uninitialised, of x's shape, dtype and device, in the memory of an attention's result.
Tensor heads_like(const Tensor& x);

}  // namespace booster
