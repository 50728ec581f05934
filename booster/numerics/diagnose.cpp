#include "booster/numerics/diagnose.h"

#include "booster/numerics/findings.h"
#include "booster/numerics/gradient_health.h"
#include "booster/numerics/gradient_watch.h"
#include "booster/numerics/matrix_units.h"
#include "booster/numerics/model_names.h"
#include "booster/numerics/op_counts.h"
#include "booster/numerics/overflow.h"
#include "booster/numerics/quantization.h"
#include "booster/numerics/tensor_checker.h"
#include "booster/training/session.h"
#include "core/autograd/observer.h"
#include "core/tensor/absence.h"
#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"
#include "platform/error.h"
#include "platform/files/file.h"
#include "platform/json/json_text.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

namespace booster {

using namespace numerics;

namespace {

constexpr int findings_exit_code = 3;
constexpr double smallest_scale = 1;    // below it, the scale does not cause overflow
constexpr int64_t many_skips = 10;      // in a row
constexpr double notable_share = 0.05;  // of gradients or updates that 16 bits lose

DType computes_in(std::span<Tensor* const> arguments) {
  for (const Tensor* x : arguments)
    if (x->defined() && is_floating(x->dtype())) return x->dtype();
  return DType::i64;
}

std::string text_of(const Findings& findings) {
  auto json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings.list()) json.push_back(finding.to_json());
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Findings findings_of(const std::string& text) {
  Findings findings;
  for (const auto& json : json_from<nlohmann::ordered_json>(text))
    findings.add(Finding::from_json(json));
  return findings;
}

std::string text_of_bad(const Tensor& x) { return describe(x, statistics_of(x)); }

}  // namespace

// Observes ops as their observer, and the phases of a step as the session's watcher.
class Diagnose::Body : public OpObserver, public SessionWatcher {
 public:
  Body(const BoostedModel& model, const DiagnoseOptions& options)
      : model_(model),
        session_(model.session()),
        options_(options),
        names_(session_.model, session_.optimizer),
        watch_(session_.model, session_.optimizer),
        checker_(options.checker),
        has_policy_(session_.precision->policy(session_.optimizer.device()) != nullptr),
        step_(options.steps_done + 1) {
    check(!session_.watcher && !current_observer(),
          "Diagnose: another one is active; want one at a time");
    session_.watcher = this;
    begin_step();
  }
  ~Body() override { stop(); }

  void stop() {
    if (stopped_) return;
    stopped_ = true;
    look(false);
    session_.watcher = nullptr;
    sum_up();
  }

  void stop(const Group& group) {
    stop();
    if (group.size() == 1 || std::exchange(merged_, true)) return;
    std::vector<Findings> by_rank;
    for (const std::string& text : gather_text(text_of(findings()), group))
      by_rank.push_back(findings_of(text));
    const std::lock_guard lock(mutex_);
    elsewhere_ = {};
    findings_ = Findings::merged(by_rank);
  }

  // --- OpObserver
  void op_called(Op op, const OpPolicy* policy, std::span<const Tensor> given,
                 std::span<Tensor* const> run) override {
    if (is_other_thread()) return note_other_thread(op, policy);
    if (ignores()) return;
    counts_.add(name_of(op), policy, policy ? (*policy)[op] : OpClass::untouched, computes_in(run));
    layer_ = names_.layer_of(given);
    units_.see(op, layer_, run);
  }
  void was_cast(const CastEvent& event) override {
    if (!ignores()) counts_.add(event);
  }
  void was_quantized(const QuantizeEvent& event) override {
    if (!is_other_thread()) quantization_.see(event, step_, findings_);
  }
  void op_returned(const char* name, std::span<const Tensor> inputs, const Tensor& y) override {
    if (ignores()) return;
    const std::string layer = layer_.empty() ? names_.layer_of(inputs) : layer_;
    layer_.clear();
    const std::string place = layer.empty() ? module() : layer;
    if (std::string_view(name) == "fp8_linear") {
      counts_.add(name, nullptr, OpClass::untouched, DType::u8);
      units_.see_fp8(place, inputs[0], inputs[1]);
    }
    trace_.forward(name, place, inputs, y);
    checker_.see(name, place, y);
  }
  void backward_returned(const char* name, std::span<const Tensor> g, std::span<const Tensor> d,
                         int64_t nanoseconds) override {
    if (is_other_thread()) return;
    if (std::string_view(name) == "cast" && g[0].defined() && d[0].defined())
      counts_.add_backward_cast(g[0], d[0], nanoseconds);
    trace_.backward(name, g, d);
    for (const Tensor& x : d)
      if (x.defined()) checker_.see(name + std::string("_grad"), "@GRAD", x);
  }
  void leaf_receives(const Tensor& leaf, const Tensor& gradient) override {
    if (is_other_thread()) return;
    const std::string name = names_.of(leaf);
    watch_.leaf(leaf, name, step_, findings_);
    if (name.empty()) return;
    trace_.leaf(name, gradient);
    checker_.see("accumulate_grad", name + "@GRAD", gradient);
  }
  void module_begins(const Module& x) override {
    if (!is_other_thread()) modules_.push_back(names_.of(x));
  }
  void module_ends(const Module&) override {
    if (!is_other_thread() && !modules_.empty()) modules_.pop_back();
  }

  // --- SessionWatcher
  void forward_begins(const Tensors& input) override {
    follow_groups();
    if (!looking_ || !grad_enabled()) return;
    for (const auto& [name, tensor] : input)
      if (!is_finite(tensor)) facts_.bad_data = text_of_bad(tensor);
  }
  void backward_begins(const Tensor& loss) override {
    if (!looking_) return;
    facts_.loss_finite = facts_.loss_finite && is_finite(loss);
    if (!first_backward_) return;
    first_backward_ = false;
    for (const auto& parameter : session_.optimizer.parameters_with_grad())
      if (facts_.stale_gradient.empty() && !is_finite(parameter.tensor.grad()))
        facts_.stale_gradient = parameter.name;
  }
  void gradients_are_known() override {
    if (looking_) watch_.note_versions();
  }
  void step_begins(const Verdict& verdict) override {
    if (!looking_) return;
    watch_.before_step(verdict, step_, findings_);
    facts_.scale = verdict.scale.defined() ? verdict.scale.item() : 1;
    const double pending = verdict.inverse_scale.defined() ? 1 / verdict.inverse_scale.item() : 1;
    check_scale(facts_.scale);
    gradients_finite_ = true;
    for (const auto& [name, parameter] : session_.optimizer.parameters_with_grad())
      gradients_finite_ = gradients_finite_ && is_finite(parameter.grad());
    for (const auto& [name, parameter] : session_.optimizer.parameters())
      if (facts_.bad_parameter.empty() && !is_finite(numbers_here(parameter)))
        facts_.bad_parameter = name;
    health_.before_step(session_.optimizer, pending, facts_.scale);
  }
  void step_ends(const StepReport& report) override {
    if (looking_) {
      watch_.after_step(report.skipped());
      judge(report.skipped());
    }
    ++step_;
    begin_step();
  }

  // Returns the findings of this thread and of all others.
  Findings findings() const {
    const std::lock_guard lock(mutex_);
    Findings all = findings_;
    for (const Finding& finding : elsewhere_.list()) all.add(finding);
    return all;
  }
  std::string table() const;
  nlohmann::ordered_json to_json() const;

 private:
  bool is_other_thread() const { return std::this_thread::get_id() != thread_; }
  // Returns true for other threads and for computations outside of training.
  bool ignores() const { return is_other_thread() || !grad_enabled(); }
  std::string module() const { return modules_.empty() ? "" : modules_.back(); }

  void look(bool on) {
    looking_ = on;
    op_observer.store(on ? this : nullptr, std::memory_order_release);
  }

  // Follows the optimizer's groups, which may have grown since the last step.
  void follow_groups() {
    if (std::exchange(groups_, session_.optimizer.group_count()) == groups_) return;
    names_.add(session_.optimizer.parameters());
    watch_.follow_groups();
  }

  void begin_step() {
    facts_ = StepFacts();
    facts_.step = step_;
    facts_.ranks = session_.plugin->group().size();
    first_backward_ = true;
    trace_.begin_step();
    checker_.begin_step(step_);
    modules_.clear();
    look(step_ >= options_.steps.first && step_ <= options_.steps.last);
  }

  void judge(bool skipped) {
    ++steps_seen_;
    skipped_ += skipped;
    skips_in_a_row_ = skipped ? skips_in_a_row_ + 1 : 0;
    if (skipped || !facts_.loss_finite || !gradients_finite_) findings_.add(trace_.explain(facts_));
    if (skips_in_a_row_ == many_skips) report_collapse();
    if (!skipped) health_.after_step(session_.optimizer);
  }

  // Adds the findings that need the whole run.
  void sum_up() {
    const int64_t step = options_.steps.first;
    for (const auto& [op, calls] : counts_.unlisted_in_16_bits())
      findings_.add(Pitfall::unlisted_ops, step, op,
                    fmt::format("{} calls of an unlisted op", calls), {{"calls", calls}});
    if (counts_.has_low_precision()) units_.add_to(findings_, step);
    for (const auto& [name, h] : health_.parameters()) report_losses(name, h);
    for (const std::string& name : checker_.names_never_seen()) {
      Finding finding;
      finding.severity = Severity::warning;
      finding.step = step;
      finding.object = name;
      finding.text = "is on a list of the tensor checker, but no such op ran";
      findings_.add(finding);
    }
  }

  void report_losses(const std::string& parameter, const ParameterHealth& health) {
    const double under = health.share_underflow(), lost = health.share_lost();
    if (counts_.has(Column::f16) && under > notable_share)
      findings_.add(Pitfall::vanishing_gradients, options_.steps.first, parameter,
                    fmt::format("{:.1f} % of its gradients are 0 in f16 at their step's loss "
                                "scale; suggested scale: {:g}",
                                100 * under, health_.suggested_scale()),
                    {{"share", under}});
    if (lost > notable_share)
      findings_.add(
          Pitfall::updates_lost, options_.steps.first, parameter,
          fmt::format("{:.1f} % of its updates were lost, because it is {} without a master",
                      100 * lost, health.dtype),
          {{"share", lost}});
  }

  void report_collapse() {
    findings_.add(Pitfall::scale_collapse, step_, "loss scale",
                  fmt::format("{} steps in a row were skipped; the scale is {:g}", skips_in_a_row_,
                              facts_.scale),
                  {{"skips", skips_in_a_row_}, {"loss_scale", facts_.scale}});
  }

  void check_scale(double scale) {
    if (!std::isfinite(scale))
      findings_.add(Pitfall::scale_growth_to_inf, step_, "loss scale",
                    fmt::format("the loss scale is {}", scale));
    else if (!std::isfinite(static_cast<float>(1 / scale)))
      findings_.add(Pitfall::infinite_inverse_scale, step_, "loss scale",
                    fmt::format("the loss scale is {:g}, and its inverse is not finite", scale));
    else if (scale < smallest_scale)
      findings_.add(Pitfall::scale_collapse, step_, "loss scale",
                    fmt::format("the loss scale fell to {:g}", scale), {{"loss_scale", scale}});
  }

  void note_other_thread(Op op, const OpPolicy* policy) {
    if (policy || !has_policy_) return;
    const std::lock_guard lock(mutex_);
    elsewhere_.add(Pitfall::other_thread, step_, name_of(op),
                   "ran on another thread without the strategy's policy");
  }

  BoostedModel model_;  // keeps the session
  Session& session_;
  DiagnoseOptions options_;
  ModelNames names_;
  GradientWatch watch_;
  int groups_ = 0;  // of the optimizer, whose parameters the two members know
  TensorChecker checker_;
  MatrixUnits units_;
  // Other threads that run ops read these, and record only their findings.
  const std::thread::id thread_ = std::this_thread::get_id();
  const bool has_policy_;
  std::atomic<int64_t> step_;  // current or next step
  mutable std::mutex mutex_;   // of elsewhere_
  Findings elsewhere_;

  bool looking_ = false, stopped_ = false, merged_ = false;

  OpCounts counts_;
  OverflowTrace trace_;
  GradientHealth health_;
  QuantizationHealth quantization_;
  Findings findings_;

  StepFacts facts_;
  bool first_backward_ = true, gradients_finite_ = true;
  std::vector<std::string> modules_;  // that run, outer first
  std::string layer_;                 // of the last op called
  int64_t steps_seen_ = 0, skipped_ = 0, skips_in_a_row_ = 0;
};

std::string Diagnose::Body::table() const {
  std::string text =
      fmt::format("numerics: {} on {}, {} steps observed, {} skipped\n\n",
                  session_.precision->name(), session_.plugin->name(), steps_seen_, skipped_);
  text += counts_.table() + "\n" + health_.table() + quantization_.table();
  if (const double scale = health_.suggested_scale(); scale > 0)
    text += fmt::format("suggested first loss scale for f16: {:g}\n", scale);
  if (checker_.is_on())
    text += fmt::format("tensor checker: {} lines, {} of them with nan or inf\n", checker_.lines(),
                        checker_.bad_lines());
  const std::vector<Finding> found = findings().sorted();
  text += fmt::format("\nfindings: {}\n", found.size());
  for (const Finding& finding : found) text += finding.to_string() + "\n";
  return text;
}

nlohmann::ordered_json Diagnose::Body::to_json() const {
  nlohmann::ordered_json json = {{"strategy", session_.precision->name()},
                                 {"plugin", session_.plugin->name()},
                                 {"steps", steps_seen_},
                                 {"skipped", skipped_}};
  json.update(counts_.to_json());
  json["parameters"] = health_.to_json();
  json["quantized"] = quantization_.to_json();
  json["suggested_loss_scale"] = health_.suggested_scale();
  json["checker"] = {{"lines", checker_.lines()}, {"with_errors", checker_.bad_lines()}};
  const Findings found = findings();
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : found.sorted()) json["findings"].push_back(finding.to_json());
  json["exit_code"] = found.has(Severity::error) ? findings_exit_code : 0;
  return json;
}

Diagnose::Diagnose(const BoostedModel& model, DiagnoseOptions options)
    : body_(std::make_unique<Body>(model, options)) {}
Diagnose::~Diagnose() = default;

void Diagnose::stop() { body_->stop(); }
void Diagnose::stop(const Group& group) { body_->stop(group); }
std::vector<Finding> Diagnose::findings() const { return body_->findings().sorted(); }
int Diagnose::exit_code() const {
  return body_->findings().has(Severity::error) ? findings_exit_code : 0;
}
std::string Diagnose::table() const { return body_->table(); }
nlohmann::ordered_json Diagnose::to_json() const { return body_->to_json(); }
void Diagnose::write(const std::filesystem::path& path) const {
  write_file(path, to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace booster
