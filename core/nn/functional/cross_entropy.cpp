// Classification losses: cross entropy by the fused kernel, from probabilities, and from
// log-probabilities.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/nn/functional/linear_loss.h"
#include "core/nn/target_weights.h"
#include "core/tensor/later_checks.h"
#include "core/tensor/spread_columns.h"
#include "kernels/catalogue.h"

#include <cmath>

namespace booster {

Tensor target_weights(const Tensor& target, const Tensor& weight, int64_t ignore_index,
                      DType dtype) {
  const Tensor counts = not_equal(target, static_cast<double>(ignore_index));
  if (!weight.defined()) return untracked::cast(counts, dtype);
  const Tensor safe = where(counts, target, zeros_like(target));
  const Tensor weights = index_select(untracked::cast(weight, dtype), 0, safe);
  return mul(weights, untracked::cast(counts, dtype));
}

namespace {

// Returns x (n, classes), (n, classes, d1, ...) or (classes) as rows of classes.
Tensor class_rows(const char* op, const Tensor& x) {
  check(x.ndim() > 0, "{}: want (n, classes, ...); got a tensor without dimensions", op);
  if (x.ndim() == 1) return unsqueeze(x, 0);
  if (x.ndim() == 2) return x;
  std::vector<int> order = {0};
  for (int i = 2; i < x.ndim(); ++i) order.push_back(i);
  order.push_back(1);
  return reshape(permute(x, order), {x.numel() / std::max<int64_t>(x.size(1), 1), x.size(1)});
}

// Returns the shape of unreduced losses: x's without classes.
Shape loss_shape(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(x.ndim() == 1 ? 0 : 1);
  return shape;
}

// Returns the class numbers of all rows, checked against the logits' shape.
Tensor class_numbers(const char* op, const Tensor& target, const Tensor& x) {
  if (target.shape() != loss_shape(x))
    fail("{}: target has the wrong shape; got {} for logits {}, want {}", op, target.shape(),
         x.shape(), loss_shape(x));
  return untracked::reshape(arguments::indices(op, "target", target), {target.numel()});
}

void check_weight(const char* op, const Tensor& weight, int64_t classes) {
  if (!weight.defined()) return;
  arguments::floating(op, "weight", weight);
  arguments::optional_shape(op, "weight", weight, {classes});
}

}  // namespace

Tensor dense_weight(const Tensor& weight, DType dtype) {
  return weight.defined() ? untracked::contiguous(untracked::cast(weight, dtype)) : Tensor();
}

// A divisor of 0 becomes nan: a mean over no weight is nan, even if losses are above 0, as smoothed
// ones are.
Tensor mean_divisor(const Tensor& target, const Tensor& weight, int64_t ignore_index, DType dtype) {
  const Tensor divisor = sum(target_weights(target, weight, ignore_index, dtype));
  return where(equal(divisor, 0.0), scalar(NAN, {divisor.dtype(), divisor.device()}), divisor);
}

namespace {

// Widens 16-bit losses, which would lose digits that matter to loss scaling and logs.
Tensor wide(const Tensor& x) { return is_16_bit(x.dtype()) ? cast(x, DType::f32) : x; }

Logits logits_of(const Tensor& rows) {
  if (auto [part, ranks] = spread_columns(rows); part.defined()) {
    const int64_t first = ranks->columns().begin, classes = ranks->all();
    return {part, first, classes, std::move(ranks)};
  }
  return {untracked::contiguous(rows), 0, rows.size(1), nullptr};
}

// Joins the ranks' losses. Each rank has the terms and the log-sum-exp of its classes.
RowLosses joined(const RowLosses& mine, const ColumnRanks& ranks) {
  const auto all = [&](const Tensor& x) { return ranks.everybodys(x); };
  const Tensor sums = all(mine.log_sum), factors = all(mine.factor);
  const Tensor largest = select(sums, 2, 0), rest = select(sums, 2, 1);  // (ranks, n)
  const Tensor top = amax(largest, {0});
  // Equal infinite logits must not give nan by inf - inf. The remaining differences may be -inf.
  const Tensor below = where(equal(largest, top), zeros_like(largest), largest - top);
  const Tensor log_of_all = logsumexp(below + rest, 0);
  // A rank whose logits are all -inf has no share in the row and adds nothing.
  const Tensor more =
      where(not_equal(factors, 0), mul(log_of_all - rest - below, factors), zeros_like(rest));
  return {sum(all(mine.loss) + more, {0}), stack({top, log_of_all}, 1), {}};
}

[[noreturn]] void bad_target(const char* op, const Tensor& target, int64_t row, int64_t classes,
                             int64_t ignore_index) {
  fail("{}: target is not a class; got {} in row {}, want 0 to {} (or ignore_index {})", op,
       untracked::select(target, 0, row).item(), row, classes - 1, ignore_index);
}

}  // namespace

RowLosses losses_of_rows(const Logits& logits, const Tensor& target, int64_t first_row,
                         const Tensor& weight, const CrossEntropyOptions& options) {
  const Tensor& x = logits.here;
  const TensorOptions statistics{arguments::statistics_dtype(x), x.device()};
  // On a GPU a target that is not a class is reported later; until then, rows that were not written
  // must read as nan.
  const bool is_told_later = x.device().type != DeviceType::cpu;
  const auto each_row = [&](const Shape& shape) {
    return is_told_later ? full(shape, NAN, statistics) : empty(shape, statistics);
  };
  const int64_t n = x.size(0);
  const RowLosses rows{each_row({n}), each_row({n, 2}), logits.ranks ? each_row({n}) : Tensor()};
  const Tensor bad = full({1}, -1, {DType::i64, x.device()});
  kernels::on(x.device())
      .cross_entropy(rows.loss.view(), rows.log_sum.view(), rows.factor.view(), bad.view(),
                     x.view(), untracked::narrow(target, 0, first_row, n).view(), weight.view(),
                     options.label_smoothing, options.ignore_index, logits.first_class,
                     logits.classes);
  check_later(bad, [target, first_row, classes = logits.classes,
                    ignored = options.ignore_index](int64_t row) {
    bad_target("cross_entropy", target, first_row + row, classes, ignored);
  });
  return logits.ranks ? joined(rows, *logits.ranks) : rows;
}

Tensor reduced_rows(const Tensor& loss, const Tensor& divisor, Reduction reduction,
                    const Shape& shape) {
  if (reduction == Reduction::none) return untracked::reshape(loss, shape);
  const Tensor total = untracked::reshape(untracked::sum_to(loss, {1}), {});
  return reduction == Reduction::sum ? total : div(total, divisor);
}

namespace {

Tensor from_class_numbers(const Tensor& x, const Tensor& target,
                          const CrossEntropyOptions& options) {
  const Tensor all = class_rows("cross_entropy", x);
  const Tensor numbers = class_numbers("cross_entropy", target, x);
  check_weight("cross_entropy", options.weight, all.size(1));
  const DType dtype = arguments::statistics_dtype(all);
  Tensor weight, divisor, loss;
  const auto product = options.reduction == Reduction::none ? nullptr : linear_product(all);
  if (product) return linear_loss(*product, numbers, options, spread_columns(all).ranks);
  const Logits logits = logits_of(all.detach());
  RowLosses rows;
  {
    const NoGradGuard no_grad;
    weight = dense_weight(options.weight, dtype);
    rows = losses_of_rows(logits, numbers, 0, weight, options);
    if (options.reduction == Reduction::mean)
      divisor = mean_divisor(numbers, weight, options.ignore_index, dtype);
    loss = reduced_rows(rows.loss, divisor, options.reduction, loss_shape(x));
  }
  // dlogits[c] = (g / divisor) (p[c] (on_target w[t] + on_each sum(w)) - on_each w[c]
  //              - [c = t] on_target w[t]), with on_target = 1 - smoothing, on_each = smoothing /
  //              classes
  return record(
      loss, "cross_entropy", {all},
      [here = Saved(logits.here), first_class = logits.first_class, classes = logits.classes,
       ranks = logits.ranks, log_sum = Saved(rows.log_sum), target = Saved(numbers),
       weight = Saved(weight), divisor = Saved(divisor), options](const Tensor& g, Gradients& d) {
        const Tensor x = here, divide_by = divisor;
        const Tensor scale = divide_by.defined() ? div(g, divide_by) : g;
        const Shape each = {x.size(0)};
        const Tensor per_row =
            g.ndim() == 0 || g.shape() != each
                ? untracked::expand(untracked::reshape(scale, {scale.numel()}), each)
                : scale;
        const Tensor dx = empty_like(x);
        kernels::on(x.device())
            .cross_entropy_backward(dx.view(), per_row.view(), x.view(), log_sum.get().view(),
                                    target.get().view(), weight.get().view(),
                                    options.label_smoothing, options.ignore_index, first_class,
                                    classes);
        d[0] = ranks ? spread_over_ranks({dx, ranks}) : dx;
      });
}

// Returns -sum over classes of w[c] q[c] log p[c], with q the target smoothed towards 1 / classes.
Tensor from_probabilities(const Tensor& x, const Tensor& target,
                          const CrossEntropyOptions& options) {
  if (target.shape() != x.shape())
    fail(
        "cross_entropy: probabilities have the wrong shape; got target {}, want the logits' shape, "
        "{}",
        target.shape(), x.shape());
  const Tensor logits = wide(class_rows("cross_entropy", x));
  const int64_t classes = logits.size(1);
  check_weight("cross_entropy", options.weight, classes);
  Tensor wanted = cast(class_rows("cross_entropy", target), logits.dtype());
  const double eps = options.label_smoothing;
  if (eps > 0) wanted = wanted * (1 - eps) + eps / static_cast<double>(classes);
  if (options.weight.defined())
    wanted = mul(wanted, untracked::cast(options.weight, logits.dtype()));
  const Tensor loss = neg(sum(mul(wanted, log_softmax(logits, 1)), {1}));
  if (options.reduction == Reduction::none) return reshape(loss, loss_shape(x));
  return options.reduction == Reduction::sum ? sum(loss)
                                             : sum(loss) / static_cast<double>(logits.size(0));
}

}  // namespace

namespace {
void check_reduction(const char* op, Reduction reduction) {
  check(reduction != Reduction::batch_mean, "{}: only kl_div has the reduction batch_mean", op);
}
}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options) {
  Tensor x = logits;
  arguments::floating("cross_entropy", "logits", x);
  check_reduction("cross_entropy", options.reduction);
  check(target.defined(), "cross_entropy: target is undefined");
  arguments::probability("cross_entropy", "label_smoothing", options.label_smoothing);
  apply_policy(Op::cross_entropy, {&x});
  const PolicyScope inside(nullptr);  // casts spread logits on their ranks
  return is_floating(target.dtype()) ? from_probabilities(x, target, options)
                                     : from_class_numbers(x, target, options);
}

Tensor nll_loss(const Tensor& log_probability, const Tensor& target, NllOptions options) {
  Tensor x = log_probability;
  arguments::floating("nll_loss", "log_probability", x);
  check_reduction("nll_loss", options.reduction);
  check(target.defined(), "nll_loss: target is undefined");
  apply_policy(Op::nll_loss, {&x});
  const PolicyScope inside(nullptr);
  const Tensor rows = class_rows("nll_loss", x);
  const Tensor numbers = class_numbers("nll_loss", target, x);
  const int64_t classes = rows.size(1);
  check_weight("nll_loss", options.weight, classes);
  const std::vector<int64_t> values = numbers.to_vector<int64_t>();
  for (size_t row = 0; row < values.size(); ++row)
    if (values[row] != options.ignore_index && (values[row] < 0 || values[row] >= classes))
      bad_target("nll_loss", numbers, static_cast<int64_t>(row), classes, options.ignore_index);
  const Tensor counts = not_equal(numbers, static_cast<double>(options.ignore_index));
  const Tensor safe = where(counts, numbers, zeros_like(numbers));
  const Tensor weights =
      target_weights(numbers, options.weight, options.ignore_index, arguments::statistics_dtype(x));
  const Tensor picked = wide(squeeze(gather(rows, 1, unsqueeze(safe, 1)), 1));
  // An ignored row may hold -inf, and 0 * -inf would be nan.
  const Tensor loss = neg(mul(where(counts, picked, zeros_like(picked)), weights));
  if (options.reduction == Reduction::none) return reshape(loss, loss_shape(x));
  return options.reduction == Reduction::sum ? sum(loss) : div(sum(loss), sum(weights));
}

}  // namespace booster
