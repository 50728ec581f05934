// GradientKeeper: holds the gradients of a boosted training's leaves. A gradient may be multiplied
// by a loss scale, and it may be local to this rank. Code that used it unchanged would silently
// train on wrong values. Optimizers and clips therefore call check_not_kept() first, and grad()
// returns the result of the keeper's reader. The keeper's own code runs in a Scope. For the
// training thread only.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class GradientKeeper {
 public:
  // Keeps the gradients of `leaves`, except leaves that another keeper already has. `name` is for
  // errors: "fp16 on torch_ddp".
  GradientKeeper(std::string name, const std::vector<Tensor>& leaves);
  // Clears the gradients, because their scale and origin are unknown without the keeper.
  ~GradientKeeper();
  GradientKeeper(const GradientKeeper&) = delete;
  GradientKeeper& operator=(const GradientKeeper&) = delete;
  const std::string& name() const { return name_; }
  // Keeps the gradients of these leaves as well.
  void keep(const std::vector<Tensor>& leaves);

  // Returns the gradient that a program reads from one of the leaves outside of a Scope.
  using Reader = std::function<Tensor(const Tensor& leaf, const Tensor& in_memory)>;
  void set_reader(Reader reader) { reader_ = std::move(reader); }

  // Allows its thread to use kept gradients freely while it lives.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool before_;
  };

 private:
  friend Tensor kept_grad(const GradientKeeper&, const Tensor&, const Tensor&);

  std::string name_;
  std::vector<Tensor> leaves_;
  Reader reader_;
};

// Returns what grad() gives for a leaf whose gradient is kept.
Tensor kept_grad(const GradientKeeper& keeper, const Tensor& leaf, const Tensor& in_memory);
// Returns the keeper of x's gradient. Null if there is none, or if this thread is in a Scope.
const GradientKeeper* keeper_of(const Tensor& x);
// Throws if a keeper has the leaf's gradient. The error names `call`, the function called, and
// `instead`, the one to call.
void check_not_kept(const char* call, const Tensor& leaf, const char* instead);
// Returns a hint for errors about x's dtype. The hint names boosted.model if x belongs to a boosted
// model that was called without its strategy. Otherwise it is "".
std::string boosted_hint(const Tensor& x);

}  // namespace booster
