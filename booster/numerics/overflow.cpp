#include "booster/numerics/overflow.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::numerics {

namespace {

// The remedy, by the op that made the first bad value.
struct Rule {
  const char* ops;  // names surrounded by blanks
  Pitfall pitfall;
  const char* remedy;
};
constexpr Rule rules[] = {
    {" cast ", Pitfall::constant_out_of_range,
     "the value exceeds the 16-bit dtype: mask with -inf or its lowest finite number, normalise "
     "inputs, or keep this op in f32"},
    {" sum mean var norm logsumexp avg_pool2d adaptive_avg_pool2d ", Pitfall::sum_overflow,
     "run the reduction in f32 (torch's autocast on CUDA does), or take the mean of parts"},
    {" softmax log_softmax attention ", Pitfall::fully_masked_softmax,
     "a row holds only -inf, or scores beyond the range: leave one entry unmasked, scale the "
     "queries before the product, or run the softmax in f32"},
    {" exp exp2 expm1 sinh cosh pow square reciprocal rsqrt ", Pitfall::non_finite_forward,
     "subtract the maximum first, clamp the argument, or run it in f32 (it is on torch's f32 "
     "list)"},
    {" div log log2 log10 sqrt asin acos ", Pitfall::non_finite_forward,
     "the argument reached 0 or left the domain: an eps of 1e-8 is 0 in f16; use at least 1e-4, or "
     "run it in f32"},
    {" matmul linear linear_gelu conv2d fp8_linear ", Pitfall::non_finite_forward,
     "the product exceeds the dtype's range: normalise the inputs (a norm before the layer), scale "
     "before the product, lower the learning rate, or train in bf16"},
    {" binary_cross_entropy ", Pitfall::binary_cross_entropy_in_f16,
     "use binary_cross_entropy_with_logits"},
};

const Rule* rule_of(const std::string& op) {
  const std::string padded = " " + op + " ";
  for (const Rule& rule : rules)
    if (std::string_view(rule.ops).find(padded) != std::string_view::npos) return &rule;
  return nullptr;
}

bool all_finite(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor& x) { return !x.defined() || is_finite(x); });
}

Origin origin(const std::string& op, const std::string& place, std::span<const Tensor> inputs,
              const Tensor& y) {
  const Statistics s = statistics_of(y);
  Origin origin{.op = op,
                .place = place,
                .result = describe(y, s),
                .dtype = booster::name_of(y.dtype()),
                .maxima = {},
                .finite_inputs = all_finite(inputs),
                .nan_inputs = false,
                .has_nan = s.nans > 0,
                .only_nan = s.nans > 0 && s.infs == 0};
  for (const Tensor& x : inputs) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    const Statistics of_input = statistics_of(x);
    origin.maxima.push_back(of_input.magnitude);
    origin.nan_inputs |= of_input.nans > 0;
  }
  return origin;
}

// Returns how likely the problem began here. An inf input may be intended (a mask), unless the op
// turned it into nan. An op that passes on a nan is the least likely origin.
int blame(const Origin& origin) {
  if (origin.finite_inputs) return 2;
  return origin.has_nan && !origin.nan_inputs ? 1 : 0;
}

// Returns "matmul in blocks.0.attn: f16 (2, 8): 1 inf, largest finite 3; largest inputs 300, 400".
std::string told(const Origin& origin) {
  std::string text = origin.op;
  if (!origin.place.empty()) text += " in " + origin.place;
  text += ": " + origin.result;
  if (!origin.maxima.empty())
    text += fmt::format("; its inputs' largest magnitudes: {:.4g}", fmt::join(origin.maxima, ", "));
  return text + (origin.finite_inputs ? "" : " (they were not all finite)");
}

nlohmann::ordered_json numbers_of(const Origin& origin, double scale) {
  return {{"op", origin.op},
          {"place", origin.place},
          {"result", origin.result},
          {"inputs_maxima", origin.maxima},
          {"inputs_finite", origin.finite_inputs},
          {"loss_scale", scale}};
}

Finding error(int64_t step, std::string object, std::string text, std::string remedy) {
  Finding finding;
  finding.severity = Severity::error;
  finding.step = step;
  finding.object = std::move(object);
  finding.text = std::move(text);
  finding.remedy = std::move(remedy);
  return finding;
}

Finding from_forward(const Origin& origin, const StepFacts& facts) {
  const Rule* rule = rule_of(origin.op);
  const Pitfall pitfall = rule ? rule->pitfall : Pitfall::non_finite_forward;
  Finding finding;
  finding.pitfall = pitfall;
  finding.severity = entry_of(pitfall).severity;
  finding.step = facts.step;
  finding.object = origin.place.empty() ? origin.op : origin.place;
  finding.dtype = origin.dtype;
  finding.text = "forward overflow: the first non-finite result is " + told(origin);
  finding.remedy = rule ? rule->remedy : entry_of(pitfall).remedy;
  finding.numbers = numbers_of(origin, facts.scale);
  return finding;
}

Finding from_elsewhere(const StepFacts& facts) {
  Finding finding;
  finding.step = facts.step;
  finding.object = "another rank";
  finding.text = "this rank's loss and gradients were finite, but another rank's were not";
  finding.elsewhere = true;
  return finding;
}

}  // namespace

void OverflowTrace::begin_step() { *this = {}; }

void OverflowTrace::forward(const std::string& op, const std::string& place,
                            std::span<const Tensor> inputs, const Tensor& y) {
  if (forward_ && forward_->finite_inputs) return;
  if (is_finite(y)) return;
  Origin found = origin(op, place, inputs, y);
  if (!forward_ || blame(found) > blame(*forward_)) forward_ = std::move(found);
}

void OverflowTrace::backward(const std::string& op, std::span<const Tensor> g,
                             std::span<const Tensor> d) {
  if (backward_ && backward_->finite_inputs) return;
  for (const Tensor& x : d) {
    if (!x.defined() || is_finite(x)) continue;
    Origin found = origin(op, "", g, x);
    if (!backward_ || blame(found) > blame(*backward_)) backward_ = std::move(found);
    return;
  }
}

void OverflowTrace::leaf(const std::string& parameter, const Tensor& gradient) {
  if (!parameter_.empty() || is_finite(gradient)) return;
  parameter_ = parameter;
  parameter_text_ = describe(gradient, statistics_of(gradient));
}

Finding OverflowTrace::explain(const StepFacts& facts) const {
  if (!facts.bad_data.empty())
    return error(facts.step, "data", "the model got the input " + facts.bad_data,
                 "check the samples of this batch and their normalisation; no loss scale helps");
  if (!facts.bad_parameter.empty())
    return error(facts.step, facts.bad_parameter,
                 "the parameter was not finite before the step began",
                 "return to an earlier checkpoint with a lower learning rate; no loss scale helps");
  if (!facts.stale_gradient.empty()) {
    Finding finding = error(
        facts.step, facts.stale_gradient,
        "its gradient was not finite before backward began: it remained from the previous step",
        entry_of(Pitfall::stale_inf_gradients).remedy);
    finding.pitfall = Pitfall::stale_inf_gradients;
    return finding;
  }
  if (!facts.loss_finite && forward_) return from_forward(*forward_, facts);
  if (!facts.loss_finite)
    return error(facts.step, "loss", "the loss is not finite, although all ops that made it were",
                 "check how the program changed it");
  if (facts.ranks > 1 && parameter_.empty() && !backward_) return from_elsewhere(facts);
  Finding finding;
  finding.step = facts.step;
  finding.object = parameter_;
  const std::string first =
      (backward_ ? "; in backward order, the first is from " + told(*backward_) : "") +
      (parameter_.empty() ? ""
                          : fmt::format("; first parameter: {}, {}", parameter_, parameter_text_));
  if (backward_) finding.dtype = backward_->dtype;
  if (backward_) finding.numbers = numbers_of(*backward_, facts.scale);
  finding.numbers["loss_scale"] = facts.scale;
  finding.numbers["first_parameter"] = parameter_;
  const bool derivative = backward_ && backward_->finite_inputs && backward_->only_nan;
  if (facts.scale > 1 && !derivative) {
    finding.pitfall = Pitfall::occasional_overflow;
    finding.severity = Severity::info;
    finding.object = "loss scale";
    finding.text = fmt::format(
        "scale too high: forward and loss were finite, but gradients overflowed at loss scale "
        "{:g}{}",
        facts.scale, first);
    finding.remedy = entry_of(Pitfall::occasional_overflow).remedy;
    return finding;
  }
  finding.severity = Severity::error;
  finding.text = (derivative ? "a derivative is nan although forward was finite"
                             : "gradients are not finite although forward and loss were") +
                 first;
  finding.remedy = derivative ? "look for sqrt, norm, div or pow at 0: add an eps inside of them"
                              : "clip gradients, lower the learning rate, or train in bf16";
  return finding;
}

}  // namespace booster::numerics
