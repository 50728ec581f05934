#include "core/nn/functional/linear_loss.h"

#include "core/autograd/node.h"
#include "core/nn/arguments.h"
#include "core/tensor/later_checks.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace booster {
namespace {

constexpr int64_t most_logits = int64_t{1} << 24;  // in memory at a time: 64 MB in f32

// Gradients of f16 are computed times this, so that the smallest do not vanish before the gradient
// of the loss, which has the loss scale, arrives. Sums are in f32, which none of them leaves.
constexpr double f16_room = 1024;

// The gradients of a sum of losses, times a factor that does not depend on the rows.
struct LinearGradients {
  Tensor x, weight, bias;  // undefined: not wanted
  Tensor left;             // the factor that remains for later; undefined: 1
};

class LinearLoss {
 public:
  // Off the tape. `records`: a tape waits for gradients.
  LinearLoss(const LinearProduct& product, const Tensor& target, const CrossEntropyOptions& options,
             std::shared_ptr<const ColumnRanks> ranks, bool records)
      : options_(options),
        ranks_(std::move(ranks)),
        x_(untracked::contiguous(product.rows())),
        weight_(product.weight.detach()),
        bias_(product.bias.defined() ? product.bias.detach() : Tensor()),
        target_(target),
        dtype_(arguments::statistics_dtype(x_)),
        class_weight_(dense_weight(options.weight, dtype_)) {
    if (options.reduction == Reduction::mean)
      divisor_ = mean_divisor(target, class_weight_, options.ignore_index, dtype_);
    if (records && product.x.requires_grad()) gradients_.x = room_for(x_.shape());
    if (records && product.weight.requires_grad()) gradients_.weight = sums(weight_.shape());
    if (records && product.bias.defined() && product.bias.requires_grad())
      gradients_.bias = zeros(bias_.shape(), {dtype_, x_.device()});
    set_scale();
  }

  // Returns the reduced loss, off the tape.
  Tensor run() {
    // Ranks with fewer classes take as many turns as the others.
    const int64_t rows = x_.size(0), classes = ranks_ ? ranks_->most() : weight_.size(0);
    const int64_t each = std::clamp<int64_t>(most_logits / std::max<int64_t>(classes, 1), 1,
                                             std::max<int64_t>(rows, 1));
    const Tensor logits = empty({each, weight_.size(0)}, {x_.dtype(), x_.device()});
    losses_ = empty({rows}, {dtype_, x_.device()});
    if (rows == 0 && gradients_.weight.defined()) gradients_.weight.zero_();
    for (int64_t begin = 0; begin < rows; begin += each) {
      const int64_t count = std::min(each, rows - begin);
      add_rows(untracked::narrow(logits, 0, 0, count), begin);
    }
    return reduced_rows(losses_, divisor_, options_.reduction, {});
  }

  LinearGradients take_gradients() { return std::move(gradients_); }

 private:
  // The gradient of x in its own dtype, or in f32 where that might overflow.
  Tensor room_for(const Shape& shape) const {
    return empty(shape, {x_.dtype() == DType::f16 ? DType::f32 : x_.dtype(), x_.device()});
  }
  Tensor sums(const Shape& shape) const { return empty(shape, {dtype_, x_.device()}); }

  // The factor of each row's gradient. A large class weight must not take f16 out of its range.
  void set_scale() {
    const TensorOptions one{dtype_, x_.device()};
    if (x_.dtype() != DType::f16) {
      scale_ = divisor_.defined() ? div(scalar(1, one), divisor_) : scalar(1, one);
      return;
    }
    const Tensor largest = class_weight_.defined() ? amax(abs(class_weight_), {0}) : scalar(1, one);
    const Tensor room = where(greater(largest, 0.0), largest, scalar(1, one)) / f16_room;
    scale_ = div(scalar(1, one), room);
    gradients_.left = divisor_.defined() ? div(room, divisor_) : room;
  }

  void add_rows(const Tensor& logits, int64_t begin) {
    const int64_t count = logits.size(0);
    const auto part = [&](const Tensor& all) { return untracked::narrow(all, 0, begin, count); };
    const Tensor x = part(x_);
    const auto& table = kernels::on(x_.device());
    table.linear(logits.view(), x.view(), weight_.view(), bias_.view());
    const Logits here{logits, ranks_ ? ranks_->columns().begin : 0,
                      ranks_ ? ranks_->all() : weight_.size(0), ranks_};
    const RowLosses found = losses_of_rows(here, target_, begin, class_weight_, options_);
    part(losses_).copy_(found.loss);
    if (!gradients_.x.defined() && !gradients_.weight.defined() && !gradients_.bias.defined())
      return;
    const Tensor scale = untracked::expand(untracked::reshape(scale_, {1}), {count});
    table.cross_entropy_backward(logits.view(), scale.view(), logits.view(), found.log_sum.view(),
                                 part(target_).view(), class_weight_.view(),
                                 options_.label_smoothing, options_.ignore_index, here.first_class,
                                 here.classes);
    if (gradients_.x.defined())
      table.matmul(part(gradients_.x).view(), logits.view(), weight_.view(), 0);
    if (gradients_.weight.defined())
      table.linear_backward_weight(gradients_.weight.view(), {}, logits.view(), x.view(),
                                   begin > 0 ? 1 : 0);
    if (!gradients_.bias.defined()) return;
    const Tensor columns = sums(bias_.shape());
    table.column_sums(columns.view(), logits.view());
    gradients_.bias.add_(columns);
  }

  const CrossEntropyOptions& options_;
  std::shared_ptr<const ColumnRanks> ranks_;  // null: this rank has all classes
  Tensor x_, weight_, bias_, target_;
  DType dtype_;
  Tensor class_weight_, divisor_, scale_, losses_;
  LinearGradients gradients_;
};

// Returns gradient * factor in this dtype. Gives the gradient away, or writes in its place, if no
// later pass needs it.
Tensor scaled(Tensor& gradient, const Tensor& factor, DType dtype, bool is_last) {
  const Tensor from = is_last ? std::exchange(gradient, {}) : gradient;
  const bool is_one = factor.device() == Device{} && factor.item() == 1;
  if (is_one) return untracked::cast(from, dtype);
  const Tensor to =
      is_last && from.dtype() == dtype ? from : empty(from.shape(), {dtype, from.device()});
  kernels::on(from.device())
      .binary(kernels::BinaryOp::mul, to.view(), from.view(),
              untracked::expand(factor, from.shape()).view());
  return to;
}

}  // namespace

Tensor linear_loss(const LinearProduct& product, const Tensor& target,
                   const CrossEntropyOptions& options,
                   const std::shared_ptr<const ColumnRanks>& ranks) {
  Tensor loss;
  LinearGradients gradients;
  {
    const bool records = must_record({product.x, product.weight, product.bias});
    const NoGradGuard no_grad;
    LinearLoss pass(product, target, options, ranks, records);
    loss = pass.run();
    gradients = pass.take_gradients();
  }
  if (gradients.weight.defined() && product.dweight == DType::bf16)
    gradients.weight = untracked::cast(gradients.weight, DType::bf16);
  return record(
      loss, "linear_cross_entropy", {product.x, product.weight, product.bias},
      [all = std::move(gradients), shape = product.x.shape(), dtype = product.x.dtype(),
       dweight = product.dweight, dbias = product.dbias](const Tensor& g, Gradients& d) mutable {
        const Tensor factor = all.left.defined() ? mul(g, all.left) : g;
        const bool is_last = d.is_last_pass();
        if (d.wanted(0)) d[0] = untracked::reshape(scaled(all.x, factor, dtype, is_last), shape);
        if (d.wanted(1)) d[1] = scaled(all.weight, factor, dweight, is_last);
        if (d.wanted(2)) d[2] = scaled(all.bias, factor, dbias, is_last);
      });
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const Tensor& bias, CrossEntropyOptions options) {
  check(x.defined() && x.ndim() == 2,
        "linear_cross_entropy: wrong input; got {}, want (rows, features)",
        x.defined() ? x.shape() : Shape{});
  return cross_entropy(linear_on_use(x, weight, bias), target, std::move(options));
}

}  // namespace booster
