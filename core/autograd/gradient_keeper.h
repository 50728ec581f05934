// GradientKeeper: a boosted training keeps the gradients of its leaves. It may have multiplied them
// by a loss scale, and they may be of this rank alone, so that who takes them for what they are
// trains on wrong numbers without a word. Optimizers and clips ask first (check_not_kept), grad()
// gives what the keeper's reader says; the keeper's own code runs in a Scope. For the thread that
// trains.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class GradientKeeper {
 public:
  // Keeps the gradients of these leaves, but for those that another keeps. `name` is for errors:
  // "fp16 on torch_ddp".
  GradientKeeper(std::string name, const std::vector<Tensor>& leaves);
  // Drops the gradients: nobody could tell any more what they are.
  ~GradientKeeper();
  GradientKeeper(const GradientKeeper&) = delete;
  GradientKeeper& operator=(const GradientKeeper&) = delete;
  const std::string& name() const { return name_; }
  // Keeps the gradients of these too.
  void keep(const std::vector<Tensor>& leaves);

  // What a program gets that reads the gradient of one of the leaves, outside of a Scope.
  using Reader = std::function<Tensor(const Tensor& leaf, const Tensor& in_memory)>;
  void set_reader(Reader reader) { reader_ = std::move(reader); }

  // While one lives, its thread may do with kept gradients what it likes.
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

// What grad() of a leaf gives whose gradient is kept.
Tensor kept_grad(const GradientKeeper& keeper, const Tensor& leaf, const Tensor& in_memory);
// Who keeps the gradient of x; null: nobody, or this thread is in a Scope.
const GradientKeeper* keeper_of(const Tensor& x);
// Error if somebody does. `call` is what the program called, `instead` what it should have.
void check_not_kept(const char* call, const Tensor& leaf, const char* instead);
// For errors about the dtype of x: says that boosted.model is to be called, if x is of a model that
// was boosted, and called without its strategy; else "".
std::string boosted_hint(const Tensor& x);

}  // namespace booster
