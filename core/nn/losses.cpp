// Elementwise losses, composed of differentiable functions.
#include "core/nn/functional.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/tensor/checks/first_outside.h"

namespace booster {
namespace {

// The checked arguments after the policy's casts, in f32 if they have 16 bits.
struct Pair {
  Tensor output, target;
};

Tensor wide(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Pair checked(Op op, const Tensor& output, const Tensor& target) {
  Pair pair{output, target};
  arguments::floating(name_of(op), "output", output);
  check(target.defined(), "{}: target is undefined", name_of(op));
  if (output.shape() != target.shape())
    fail("{}: shapes differ; got output {} and target {}", name_of(op), output.shape(),
         target.shape());
  apply_policy(op, {&pair.output, &pair.target});
  return pair;
}

Pair entered(Op op, const Tensor& output, const Tensor& target) {
  const auto [x, t] = checked(op, output, target);
  const DType dtype = arguments::statistics_dtype(x);
  return {wide(x, dtype), wide(t, dtype)};
}

// The same for losses that only compare both: a target of 16 bits stays, because functions of it
// and of the output compute in f32.
Pair entered_to_compare(Op op, const Tensor& output, const Tensor& target) {
  const auto [x, t] = checked(op, output, target);
  const DType dtype = arguments::statistics_dtype(x);
  return {wide(x, dtype), is_16_bit(t.dtype()) ? t : wide(t, dtype)};
}

Tensor reduced(const Tensor& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(loss);
    case Reduction::sum: return sum(loss);
    case Reduction::none: return loss;
    case Reduction::batch_mean: fail("reduction: only kl_div has batch_mean");
  }
  return loss;
}

Tensor weighted(const Tensor& loss, const Tensor& weight) {
  if (!weight.defined()) return loss;
  return mul(loss, wide(weight, loss.dtype()));
}

}  // namespace

Reduction reduction_named(const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  fail("reduction: unknown name; got {}{}", name, legal_names(name, {"mean", "sum", "none"}));
}

Tensor mse_loss(const Tensor& output, const Tensor& target, Reduction reduction) {
  const Pair pair = entered_to_compare(Op::mse_loss, output, target);
  const PolicyScope inside(nullptr);
  return reduced(squared_difference(pair.output, pair.target), reduction);
}

Tensor l1_loss(const Tensor& output, const Tensor& target, Reduction reduction) {
  const Pair pair = entered_to_compare(Op::l1_loss, output, target);
  const PolicyScope inside(nullptr);
  return reduced(abs(pair.output - pair.target), reduction);
}

Tensor smooth_l1_loss(const Tensor& output, const Tensor& target, double beta,
                      Reduction reduction) {
  check(beta >= 0, "smooth_l1_loss: beta is negative; got {}, want 0 or more", beta);
  const Pair pair = entered_to_compare(Op::smooth_l1_loss, output, target);
  const PolicyScope inside(nullptr);
  const Tensor difference = pair.output - pair.target;
  return reduced(beta > 0 ? smooth_l1(difference, beta) : abs(difference), reduction);
}

Tensor huber_loss(const Tensor& output, const Tensor& target, double delta, Reduction reduction) {
  check(delta > 0, "huber_loss: delta is out of range; got {}, want more than 0", delta);
  const Pair pair = entered_to_compare(Op::huber_loss, output, target);
  const PolicyScope inside(nullptr);
  return reduced(huber(pair.output - pair.target, delta), reduction);
}

namespace {

// Returns t log t; 0 where t is 0.
Tensor entropy_terms(const Tensor& t) {
  const TensorOptions options{t.dtype(), t.device()};
  const Tensor is_zero = equal(t, 0.0);
  return where(is_zero, scalar(0, options), t * log(where(is_zero, scalar(1, options), t)));
}

}  // namespace

Tensor kl_div(const Tensor& output, const Tensor& target, KlDivOptions options) {
  const Pair pair = entered(Op::kl_div, output, target);
  const PolicyScope inside(nullptr);
  const Tensor &x = pair.output, &t = pair.target;
  const Tensor loss = options.log_target ? exp(t) * (t - x) : entropy_terms(t) - t * x;
  if (options.reduction != Reduction::batch_mean) return reduced(loss, options.reduction);
  check(loss.ndim() > 0, "kl_div: batch_mean needs a batch; got no dimensions");
  return sum(loss) / static_cast<double>(loss.size(0));
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        BinaryCrossEntropyOptions options) {
  const Pair pair = entered(Op::binary_cross_entropy_with_logits, logits, target);
  const PolicyScope inside(nullptr);
  const Tensor &x = pair.output, &t = pair.target;
  // log sigmoid(x) = -softplus(-x) and log(1 - sigmoid(x)) = -x - softplus(-x) never overflow.
  const Tensor cost = softplus(neg(x));
  if (!options.pos_weight.defined())
    return reduced(weighted((1.0 - t) * x + cost, options.weight), options.reduction);
  const Tensor factor = (wide(options.pos_weight, x.dtype()) - 1.0) * t + 1.0;
  return reduced(weighted((1.0 - t) * x + factor * cost, options.weight), options.reduction);
}

namespace {

// Returns -(t log p + (1 - t) log(1 - p)), with logarithms clamped at -100.
Tensor binary_entropy(const Tensor& p, const Tensor& t) {
  Tensor loss, log_p, log_q;
  {
    const NoGradGuard no_grad;
    log_p = clamp(log(p), -100, {});
    log_q = clamp(log(1.0 - p), -100, {});
    loss = neg(t * log_p + (1.0 - t) * log_q);
  }
  // dp = g (p - t) / (p (1 - p)), with the divisor at least 1e-12; dt = g (log(1 - p) - log p)
  return record(loss, "binary_cross_entropy", {p, t},
                [p = Saved(p), t = Saved(t), log_p = Saved(log_p), log_q = Saved(log_q)](
                    const Tensor& g, Gradients& d) {
                  const PolicyScope inside(nullptr);
                  if (d.wanted(0)) {
                    const Tensor x = p;
                    d[0] = g * (x - t) / clamp(x * (1.0 - x), 1e-12, {});
                  }
                  if (d.wanted(1)) d[1] = g * (log_q.get() - log_p.get());
                });
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& probability, const Tensor& target,
                            BinaryCrossEntropyOptions options) {
  check(!options.pos_weight.defined(),
        "binary_cross_entropy: pos_weight needs logits; use binary_cross_entropy_with_logits");
  const Pair pair = entered(Op::binary_cross_entropy, probability, target);
  const PolicyScope inside(nullptr);
  if (const int64_t at = first_outside(pair.output, 0, 1); at >= 0)
    fail(
        "binary_cross_entropy: output is not a probability; got {} at position {}, want 0 to 1 "
        "(for logits use binary_cross_entropy_with_logits)",
        pair.output.to_vector<double>()[static_cast<size_t>(at)], at);
  return reduced(weighted(binary_entropy(pair.output, pair.target), options.weight),
                 options.reduction);
}

namespace {

// Returns the checked argument of a loss `op`, in f32 if it has 16 bits.
Tensor loss_argument(const char* op, const char* name, const Tensor& x) {
  arguments::floating(op, name, x);
  return wide(x, arguments::statistics_dtype(x));
}

// Returns a target of numbers in the dtype of the output.
Tensor number_target(const char* op, const Tensor& target, const Tensor& output) {
  check(target.defined(), "{}: target is undefined", op);
  return wide(target, output.dtype());
}

Tensor nothing(const Tensor& x) { return scalar(0, {x.dtype(), x.device()}); }

void check_classes(const char* op, const Tensor& x, const Tensor& target, const Shape& want) {
  if (x.ndim() != 2 || !target.defined() || target.shape() != want)
    fail("{}: shapes do not match; got {} and target {}, want (n, classes) and {}", op, x.shape(),
         target.defined() ? target.shape() : Shape{}, want);
}

}  // namespace

Tensor soft_margin_loss(const Tensor& output, const Tensor& target, Reduction reduction) {
  const Tensor x = loss_argument("soft_margin_loss", "output", output);
  const PolicyScope inside(nullptr);
  return reduced(softplus(neg(number_target("soft_margin_loss", target, x) * x)), reduction);
}

Tensor hinge_embedding_loss(const Tensor& given, const Tensor& target, double margin,
                            Reduction reduction) {
  const Tensor x = loss_argument("hinge_embedding_loss", "x", given);
  const Tensor t = number_target("hinge_embedding_loss", target, x);
  const PolicyScope inside(nullptr);
  const Tensor apart = where(equal(t, 1.0), nothing(x), relu(margin - x));
  return reduced(apart + where(equal(t, -1.0), nothing(x), x), reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Reduction reduction) {
  const Tensor x = loss_argument("margin_ranking_loss", "a", a),
               y = loss_argument("margin_ranking_loss", "b", b);
  const PolicyScope inside(nullptr);
  const Tensor t = number_target("margin_ranking_loss", target, x);
  return reduced(relu(margin - t * (x - y)), reduction);
}

// torch's sizes: sums of squares, plus 1e-12 each.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction) {
  const Tensor x = loss_argument("cosine_embedding_loss", "a", a),
               y = loss_argument("cosine_embedding_loss", "b", b);
  const Tensor t = number_target("cosine_embedding_loss", target, x);
  if (x.ndim() < 1 || x.shape() != y.shape() || t.ndim() != x.ndim() - 1)
    fail("cosine_embedding_loss: shapes do not match; got {}, {} and target {}, want (n, features) "
         "twice and (n)",
         x.shape(), y.shape(), t.shape());
  const PolicyScope inside(nullptr);
  const Tensor sizes = (sum(square(x), {-1}) + 1e-12) * (sum(square(y), {-1}) + 1e-12);
  const Tensor cosine = sum(x * y, {-1}) / sqrt(sizes);
  const Tensor alike = where(equal(t, 1.0), 1.0 - cosine, nothing(x));
  return reduced(alike + where(equal(t, -1.0), relu(cosine - margin), nothing(x)), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions options) {
  const Tensor a = loss_argument("triplet_margin_loss", "anchor", anchor),
               p = loss_argument("triplet_margin_loss", "positive", positive),
               n = loss_argument("triplet_margin_loss", "negative", negative);
  const PolicyScope inside(nullptr);
  const auto distance = [&](const Tensor& x, const Tensor& y) {
    return options.distance ? options.distance(x, y)
                            : pairwise_distance(x, y, options.p, options.eps);
  };
  Tensor far = distance(a, n);
  if (options.swap) far = minimum(far, distance(p, n));
  return reduced(relu(distance(a, p) - far + options.margin), options.reduction);
}

// The gradient passes the bound of the variance, as in torch.
Tensor gaussian_nll_loss(const Tensor& output, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction) {
  const Tensor x = loss_argument("gaussian_nll_loss", "output", output),
               given = loss_argument("gaussian_nll_loss", "var", var);
  check(eps > 0, "gaussian_nll_loss: eps is out of range; got {}, want more than 0", eps);
  const PolicyScope inside(nullptr);
  const Tensor t = number_target("gaussian_nll_loss", target, x);
  const Tensor v = given + (maximum(given, eps) - given).detach();
  const Tensor loss = (log(v) + square(x - t) / v) * 0.5;
  return reduced(full ? loss + 0.9189385332046727 : loss, reduction);
}

Tensor poisson_nll_loss(const Tensor& output, const Tensor& target, PoissonNllOptions options) {
  const Tensor x = loss_argument("poisson_nll_loss", "output", output);
  const PolicyScope inside(nullptr);
  const Tensor t = number_target("poisson_nll_loss", target, x);
  Tensor loss = options.log_input ? exp(x) - t * x : x - t * log(x + options.eps);
  if (options.full) {
    const Tensor is_large = greater(t, 1.0);
    const Tensor safe = where(is_large, t, scalar(1, {t.dtype(), t.device()}));
    const Tensor stirling = safe * log(safe) - safe + log(safe * 6.283185307179586) * 0.5;
    loss = loss + where(is_large, stirling, nothing(x));
  }
  return reduced(loss, options.reduction);
}

Tensor multi_margin_loss(const Tensor& given, const Tensor& target, MarginOptions options) {
  const Tensor x = loss_argument("multi_margin_loss", "x", given);
  check_classes("multi_margin_loss", x, target, {x.ndim() > 0 ? x.size(0) : 0});
  check(options.p == 1 || options.p == 2, "multi_margin_loss: wrong p; got {}, want 1 or 2",
        options.p);
  const PolicyScope inside(nullptr);
  const Tensor index = unsqueeze(arguments::indices("multi_margin_loss", "target", target), 1);
  Tensor terms = relu(options.margin - gather(x, 1, index) + x);
  if (options.p == 2) terms = square(terms);
  if (options.weight.defined()) {
    const Tensor weight = wide(options.weight, x.dtype());
    terms = terms * unsqueeze(index_select(weight, 0, squeeze(index, 1)), 1);
  }
  return reduced(mean(scatter(terms, 1, index, 0), {1}), options.reduction);
}

Tensor multilabel_margin_loss(const Tensor& given, const Tensor& target, Reduction reduction) {
  const Tensor x = loss_argument("multilabel_margin_loss", "x", given);
  check_classes("multilabel_margin_loss", x, target, x.shape());
  const PolicyScope inside(nullptr);
  const Tensor classes = arguments::indices("multilabel_margin_loss", "target", target);
  const Tensor listed = cast(equal(cumsum(less(classes, 0.0), 1), 0.0), x.dtype());
  const Tensor index = maximum(where(equal(listed, 1.0), classes, zeros_like(classes)), 0.0);
  const Tensor is_other = equal(scatter_add(zeros_like(x), 1, index, listed), 0.0);
  const Tensor gaps = relu(1.0 - unsqueeze(gather(x, 1, index), 2) + unsqueeze(x, 1));
  const Tensor terms = gaps * unsqueeze(listed, 2) * cast(unsqueeze(is_other, 1), x.dtype());
  return reduced(sum(terms, {1, 2}) / static_cast<double>(x.size(1)), reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& given, const Tensor& target, const Tensor& weight,
                                   Reduction reduction) {
  const Tensor x = loss_argument("multilabel_soft_margin_loss", "x", given);
  check(x.ndim() > 0, "multilabel_soft_margin_loss: want (..., classes); got no dimensions");
  const PolicyScope inside(nullptr);
  const Tensor t = number_target("multilabel_soft_margin_loss", target, x);
  const Tensor loss = neg(t * logsigmoid(x) + (1.0 - t) * logsigmoid(neg(x)));
  return reduced(mean(weighted(loss, weight), {-1}), reduction);
}

}  // namespace booster
