#include "booster/training/gradient_loans.h"

#include "core/autograd/functions.h"
#include "core/autograd/gradient_keeper.h"
#include "core/autograd/op_policy.h"
#include "core/optim/clip.h"
#include "core/tensor/tensor.h"

#include <utility>

namespace booster {

GradientLoans::GradientLoans(std::shared_ptr<const Precision> precision,
                             const Optimizers& optimizers)
    : precision_(std::move(precision)) {
  for (const Optimizer& optimizer : optimizers) {
    entries_.push_back({optimizer});
    add(optimizer, optimizer.parameters());
  }
}

void GradientLoans::add(const Optimizer& optimizer, const Parameters& parameters) {
  const size_t index = index_of(optimizer);
  for (const auto& [name, parameter] : parameters) optimizer_of_.emplace(parameter.body(), index);
}

size_t GradientLoans::index_of(const Optimizer& optimizer) const {
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].optimizer == optimizer) return i;
  fail("gradients: unknown optimizer; want one of this boost");
}

void GradientLoans::open(const Optimizer& optimizer) {
  entries_[index_of(optimizer)].is_open = true;
}
void GradientLoans::close(const Optimizer& optimizer) {
  entries_[index_of(optimizer)].is_open = false;
}

Tensor GradientLoans::read(const Tensor& leaf, const Tensor& in_memory) {
  const auto found = optimizer_of_.find(leaf.body());
  if (!in_memory.defined() || found == optimizer_of_.end() || !entries_[found->second].is_open)
    return in_memory;
  for (const Loan& loan : loans_)
    if (loan.in_memory.same_body(in_memory) && loan.version_in_memory == in_memory.version())
      return loan.copy;
  Loan loan = lend(found->second, in_memory);
  if (!loan.copy.defined()) return in_memory;
  loans_.push_back(loan);
  return loan.copy;
}

// Returns a loan without a copy if memory holds the true gradient.
GradientLoans::Loan GradientLoans::lend(size_t optimizer, const Tensor& in_memory) const {
  const GradientKeeper::Scope mine;  // the optimizer reads memory
  const Optimizer& owner = entries_[optimizer].optimizer;
  Loan loan = {.optimizer = optimizer,
               .in_memory = in_memory,
               .version_in_memory = in_memory.version(),
               .factor = precision_->gradient_factor(owner)};
  const Tensor clip = owner.pending_clip();
  if (!loan.factor.defined() && !clip.defined()) return loan;
  const DType wide = is_16_bit(in_memory.dtype()) ? DType::f32 : in_memory.dtype();
  loan.copy =
      in_memory.dtype() == wide ? untracked::clone(in_memory) : untracked::cast(in_memory, wide);
  for (const Tensor& factor : {loan.factor, clip})
    if (factor.defined()) scale_gradients({loan.copy}, factor);
  if (loan.factor.defined())
    loan.factor = untracked::clone(loan.factor);  // fixes the current scale
  loan.version = loan.copy.version();
  return loan;
}

void GradientLoans::settle() {
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  for (Loan& loan : std::exchange(loans_, {})) {
    if (loan.copy.version() == loan.version) continue;
    entries_[loan.optimizer].optimizer.settle_clip();  // of the copies that were not written to
    loan.in_memory.copy_(loan.factor.defined() ? div(loan.copy, loan.factor) : loan.copy);
  }
}

}  // namespace booster
