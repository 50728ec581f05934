// Connectionist temporal classification: the forward recursion of Graves et al. (2006) on
// logarithms, which the tape differentiates.
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// Stands for the logarithm of 0: -infinity would make gradients nan.
constexpr double impossible = -1e30;

struct CtcTarget {
  Tensor symbols;   // (n, 2 longest + 1) i64: blanks between the classes
  Tensor may_skip;  // true where the symbol two before may come directly before
};

CtcTarget with_blanks(const Tensor& targets, int64_t blank) {
  const int64_t n = targets.size(0), longest = targets.size(1);
  std::vector<int64_t> symbols;
  std::vector<bool> may_skip;
  const auto classes = targets.to_vector<int64_t>();
  for (int64_t row = 0; row < n; ++row)
    for (int64_t s = 0; s < 2 * longest + 1; ++s) {
      const auto at = [&](int64_t i) { return classes[static_cast<size_t>(row * longest + i)]; };
      symbols.push_back(s % 2 ? at(s / 2) : blank);
      may_skip.push_back(s % 2 && (s < 3 || at(s / 2) != at(s / 2 - 1)));
    }
  const Shape shape = {n, 2 * longest + 1};
  return {from_vector(symbols, shape).to(targets.device()),
          from_vector(may_skip, shape).to(targets.device())};
}

// Returns x shifted to the right along its last dimension, with the logarithm of 0 before it.
Tensor later(const Tensor& x, int64_t by) {
  const int64_t kept = std::max<int64_t>(x.size(-1) - by, 0);
  return pad(narrow(x, -1, 0, kept), {x.size(-1) - kept, 0}, impossible);
}

void check_ctc(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
               const Tensor& target_lengths, int64_t blank) {
  arguments::floating("ctc_loss", "log_probability", x);
  if (x.ndim() != 3 || !targets.defined() || targets.ndim() != 2 || targets.size(0) != x.size(1))
    fail(
        "ctc_loss: shapes do not match; got {} and targets {}, want (steps, n, classes) and (n, "
        "longest)",
        x.shape(), targets.defined() ? targets.shape() : Shape{});
  check(blank >= 0 && blank < x.size(2), "ctc_loss: blank is out of range; got {}, want 0 to {}",
        blank, x.size(2) - 1);
  const auto check_lengths = [&](const char* name, const Tensor& lengths, int64_t most) {
    check(lengths.defined() && lengths.shape() == Shape{x.size(1)},
          "ctc_loss: {} have the wrong shape; got {}, want ({})", name,
          lengths.defined() ? lengths.shape() : Shape{}, x.size(1));
    for (const int64_t length : lengths.to_vector<int64_t>())
      check(length >= 0 && length <= most, "ctc_loss: {} are out of range; got {}, want 0 to {}",
            name, length, most);
  };
  check_lengths("input_lengths", input_lengths, x.size(0));
  check_lengths("target_lengths", target_lengths, targets.size(1));
}

// Returns the logarithm of the probability of all alignments that end at the target's end.
Tensor log_likelihood(const Tensor& x, const CtcTarget& target, const Tensor& input_lengths,
                      const Tensor& target_lengths) {
  const Tensor no_way = scalar(impossible, {x.dtype(), x.device()});
  const Tensor step = arange(target.symbols.size(1), {DType::i64, x.device()});
  Tensor ways = expand(where(less(step, 1.0), scalar(0, {x.dtype(), x.device()}), no_way),
                       target.symbols.shape());
  for (int64_t t = 0; t < x.size(0); ++t) {
    Tensor next = logaddexp(ways, later(ways, 1));
    // Before the first step only "nothing" is possible, from which the first two symbols follow.
    if (t > 0) next = logaddexp(next, where(target.may_skip, later(ways, 2), no_way));
    next = next + gather(x[t], 1, target.symbols);
    ways = where(unsqueeze(greater(input_lengths, static_cast<double>(t)), 1), next, ways);
  }
  const Tensor last = unsqueeze(target_lengths * 2, 1);
  const Tensor at_blank = squeeze(gather(ways, 1, last), 1);
  const Tensor at_class = squeeze(gather(ways, 1, maximum(last - 1, 0.0)), 1);
  return where(greater(target_lengths, 0.0), logaddexp(at_blank, at_class), at_blank);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probability, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions options) {
  check_ctc(log_probability, targets, input_lengths, target_lengths, options.blank);
  const PolicyScope inside(nullptr);
  const Tensor x = cast(log_probability, arguments::statistics_dtype(log_probability));
  const Device device = x.device();
  const Tensor steps = input_lengths.to(DType::i64).to(device),
               lengths = target_lengths.to(DType::i64).to(device);
  const CtcTarget target = with_blanks(targets, options.blank);
  const Tensor symbols = untracked::cast(target.symbols, DType::i64).to(device);
  Tensor loss = neg(log_likelihood(x, {symbols, target.may_skip.to(device)}, steps, lengths));
  const Tensor is_infinite = greater(loss, -impossible / 2);
  loss =
      where(is_infinite, scalar(options.zero_infinity ? 0 : INFINITY, {x.dtype(), device}), loss);
  switch (options.reduction) {
    case Reduction::none: return loss;
    case Reduction::sum: return sum(loss);
    case Reduction::mean: return mean(loss / cast(maximum(lengths, 1.0), loss.dtype()));
    case Reduction::batch_mean: break;
  }
  fail("ctc_loss: only kl_div has batch_mean");
}

}  // namespace booster
