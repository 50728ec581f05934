// Methods of computing attention: the kernels if this process holds all keys, or another method if
// the tokens are sharded over ranks.
#pragma once

#include "core/nn/functional.h"
#include "kernels/arguments/view.h"

#include <memory>

namespace booster {

// The options of one attention call, for both passes.
struct AttentionCall {
  Tensor mask;
  double scale = 1, dropout = 0;
  bool causal = false;
  // The first key that each query sees: (batch or 1, queries) i64; undefined: 0. Only for the
  // kernels' attention on a CPU, and with causal.
  Tensor first_keys = {};
  kernels::RandomPosition position = {};  // random numbers that decide what is dropped
};

struct AttentionResult {
  Tensor out;      // (batch, heads, queries, head size), stored as (batch, queries, heads, size)
  Tensor log_sum;  // (batch, heads, queries, 2), as the kernels write it; f32, or f64 for f64
};

// Computes attention, forward and backward, off the tape. q, k and v are (batch, heads, tokens,
// head size), dense along the last dimension, of one dtype.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  // Returns how many blocks of keys a query sees, each as long as this rank's keys.
  virtual int runs_of_keys() const { return 1; }
  virtual AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const AttentionCall& call) const;
  // Writes the gradients of q, k and v into dq, dk and dv, given `g`, the result's gradient.
  virtual void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& g,
                        const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& result, const AttentionCall& call) const;

 protected:
  AttentionMethod() = default;
};

// Returns the kernels' attention, the default.
std::shared_ptr<const AttentionMethod> plain_attention();
// Sets the method of this thread's attention() and attention_packed(); null: the kernels.
void set_attention_method(std::shared_ptr<const AttentionMethod> method);

// Returns the gradient of call.mask, given `g`, the gradient of the result `out`. The mask is added
// to the scores; dropout repeats the kernels' choice. Holds all scores in memory, in f32 or f64.
Tensor mask_gradient(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& out, const AttentionCall& call);

// Returns attention of q, k and v by differentiable functions, which hold all scores. Throws for a
// call with dropout.
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          const AttentionCall& call);

// Returns an uninitialised tensor of x's shape, dtype and device, in the memory layout of an
// attention result.
Tensor heads_like(const Tensor& x);

}  // namespace booster
