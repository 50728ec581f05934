#include "booster/numerics/gradient_watch.h"

#include "booster/numerics/findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::numerics {

namespace {

constexpr size_t names_shown = 5;

// Returns "a, b, c and 4 more".
std::string shortened(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), names_shown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return shown == names.size() ? text : text + fmt::format(" and {} more", names.size() - shown);
}

}  // namespace

GradientWatch::GradientWatch(const Model& model, const Optimizer& optimizer)
    : model_(model), optimizer_(optimizer) {
  follow_groups();
}

void GradientWatch::follow_groups() {
  for (const auto& parameter : optimizer_.parameters()) owned_.insert(parameter.tensor.body());
}

void GradientWatch::leaf(const Tensor& leaf, const std::string& name, int64_t step,
                         Findings& findings) const {
  if (owned_.contains(leaf.body())) return;
  if (!name.empty())
    return findings.add(Pitfall::unowned_parameters, step, name,
                        "gets gradients, but is not updated");
  for (const auto& parameter : model_.parameters())
    if (parameter.tensor.same_body(leaf))
      return findings.add(Pitfall::late_parameters, step, parameter.name,
                          "was added to the model after boost");
  findings.add(Pitfall::late_parameters, step, fmt::format("a leaf of shape {}", leaf.shape()),
               "gets gradients, but is not a parameter of the model: perhaps made inside forward");
}

void GradientWatch::note_versions() {
  versions_.clear();
  for (const auto& [name, parameter] : optimizer_.parameters_with_grad())
    versions_[name] = parameter.grad().version();
}

void GradientWatch::look_for_changes(const Verdict& verdict, int64_t step,
                                     Findings& findings) const {
  if (!verdict.scale.defined()) return;
  std::vector<std::string> changed;
  for (const auto& [name, parameter] : optimizer_.parameters_with_grad())
    if (const auto noted = versions_.find(name);
        noted != versions_.end() && noted->second != parameter.grad().version())
      changed.push_back(name);
  if (changed.empty()) return;
  const double scale = verdict.scale.item();
  if (verdict.inverse_scale.defined() && scale != 1)
    findings.add(Pitfall::clipped_while_scaled, step, "gradients",
                 fmt::format("{} changed while scaled by {:g}: a limit x acts as x / {:g}",
                             shortened(changed), scale, scale),
                 {{"loss_scale", scale}});
  else
    findings.add(Pitfall::gradients_changed, step, "gradients",
                 fmt::format("{} changed after the check for inf and nan", shortened(changed)));
}

void GradientWatch::look_for_absent(int64_t step, Findings& findings) const {
  std::vector<std::string> absent;
  for (const auto& [name, parameter] : optimizer_.parameters())
    if (parameter.requires_grad() && !parameter.grad().defined()) absent.push_back(name);
  if (absent.empty()) return;
  Finding finding;
  finding.pitfall = Pitfall::missing_gradients;
  const bool all = optimizer_.parameters_with_grad().empty();
  finding.severity = all ? Severity::error : Severity::warning;
  finding.step = step;
  finding.object = "optimizer";
  finding.text = "no gradient at " + shortened(absent);
  finding.remedy = entry_of(Pitfall::missing_gradients).remedy;
  finding.numbers["parameters"] = absent.size();
  findings.add(finding);
}

void GradientWatch::before_step(const Verdict& verdict, int64_t step, Findings& findings) {
  look_for_changes(verdict, step, findings);
  look_for_absent(step, findings);
  if (lr_of_skipped_ >= 0 && optimizer_.lr() != lr_of_skipped_)
    findings.add(Pitfall::lr_moved_on_skip, step, "lr scheduler",
                 fmt::format("the learning rate changed from {:g} to {:g} after a skipped step",
                             lr_of_skipped_, optimizer_.lr()));
}

void GradientWatch::after_step(bool skipped) {
  lr_of_skipped_ = skipped ? optimizer_.lr() : -1;
  versions_.clear();
}

}  // namespace booster::numerics
