#include "booster/training/skipped_steps.h"

#include "core/tensor/absence.h"
#include "core/tensor/checks/statistics.h"
#include "core/tensor/device_number.h"
#include "kernels/catalogue.h"

#include <fmt/format.h>

namespace booster {
namespace {

constexpr double smallest_scale = 1;  // at or below this, the scale does not cause overflow

std::string bad_parameter(const Optimizer& optimizer) {
  for (const auto& [name, tensor] : optimizer.master_parameters())
    if (!numerics::is_finite(numbers_here(tensor))) return name;
  return "";
}

}  // namespace

void SkippedSteps::add(const Verdict& verdict) {
  if (!verdict.found_inf.defined()) return;
  const Device device = verdict.found_inf.device();
  if (!taken_.defined()) taken_ = zeros({}, {DType::i64, device});
  const kernels::TensorSpan counter = {taken_.data(), 1, DType::i64};
  kernels::on(device).count_steps({&counter, 1}, device_float(verdict.found_inf));
  scale_ = verdict.scale;
  ++steps_;
}

std::string SkippedSteps::look(const Precision& precision, const Optimizer& optimizer,
                               bool at_end) {
  const int64_t since = steps_ - looked_at_;
  if (since == 0) return "";
  const auto taken = static_cast<int64_t>(taken_.item());
  looked_at_ = steps_;
  if (taken != taken_then_) {
    taken_then_ = taken;
    in_a_row_ = 0;
    told_ = false;
    return "";
  }
  in_a_row_ += since;
  const bool none_taken = at_end && taken == 0;
  if (told_ || (in_a_row_ < interval && !none_taken)) return "";
  const double scale = scale_.defined() ? scale_.item() : 1;
  if (precision.seeks_scale() && scale > smallest_scale) return "";
  told_ = true;
  return describe(precision, optimizer);
}

std::string SkippedSteps::describe(const Precision& precision, const Optimizer& optimizer) const {
  std::string text = fmt::format(
      "{}: {} steps in a row were skipped because gradients were not finite: the model does not "
      "learn; ",
      precision.name(), in_a_row_);
  if (const std::string name = bad_parameter(optimizer); !name.empty())
    return text + fmt::format("parameter {} holds inf or nan, want an earlier checkpoint", name);
  if (scale_.defined() && !precision.seeks_scale())
    text += fmt::format("the loss scale stays {:g} and may be too high; ", scale_.item());
  return text +
         "the parameters are finite, so check the input, the loss and the learning rate (Diagnose "
         "names the first op that gives inf or nan)";
}

}  // namespace booster
