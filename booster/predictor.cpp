#include "booster/booster.h"
#include "booster/checkpoint/folder/checkpoint.h"
#include "core/autograd/constant_casts.h"
#include "core/autograd/gradient_keeper.h"
#include "platform/threads.h"
#include "platform/trace.h"

#include <algorithm>
#include <utility>

namespace booster {

namespace {

void check_not_boosted(const Model& model) {
  for (const auto& [name, tensor] : model.parameters())
    if (const GradientKeeper* keeper = keeper_of(tensor))
      fail(
          "predictor: parameter {} is boosted ({}); want another model with the weights of a "
          "checkpoint, or the Boosted and its copies destroyed",
          name, keeper->name());
}

// Returns all tensors of the model, with their memory: the first use of a tensor may allocate it.
std::vector<Tensor> constants_of(const Model& model) {
  std::vector<Tensor> constants;
  for (const auto& [name, tensor] : model.state_dict()) {
    tensor.data();
    constants.push_back(tensor);
  }
  return constants;
}

const Model& loaded(const Model& model, const std::filesystem::path& weights) {
  check_not_boosted(model);
  load_model(model, find_weights(weights, warn).weights);
  return model;
}

}  // namespace

// Constant after construction, except the copies of weights, which have a lock.
struct Predictor::Body {
  Body(const Model& given, const PredictorOptions& options);

  Model model;
  int threads;
  Device device;
  std::unique_ptr<Precision> precision;
  std::shared_ptr<LinearMethod> linear;  // the policy's, for inference; null: none
  std::optional<OpPolicy> policy;
  std::unique_ptr<ConstantCasts> casts;
  std::vector<const Module*> modules;

 private:
  void set_policy();
};

Predictor::Body::Body(const Model& given, const PredictorOptions& options)
    : model(given), threads(options.threads), precision(options.mixed_precision.make()) {
  check(threads >= 0, "predictor: threads is out of range; got {}, want 0 or more", threads);
  check_not_boosted(model);
  if (options.device) model->to(*options.device);
  precision->check_fits(model);
  precision->prepare(model, {});
  model->eval();
  const std::vector<Tensor> constants = constants_of(model);
  if (!constants.empty())
    device = constants.front().device();
  else if (options.device)
    device = *options.device;
  casts = std::make_unique<ConstantCasts>(constants);
  for (const auto& [name, module] : model->named_modules()) modules.push_back(module);
  set_policy();
  for (const std::string& note : precision->take_notes()) warn(note);
}

// Takes a copy, whose parts do not change: a strategy's own may note casts or quantize weights in a
// pass, on one thread.
void Predictor::Body::set_policy() {
  const OpPolicy* given = precision->policy(device);
  if (!given) return;
  policy = *given;
  policy->on_cast = {};
  if (!policy->linear_method) return;
  linear = policy->linear_method->for_inference();
  check(linear != nullptr,
        "predictor: the linear method of {} is for one thread; want one with for_inference()",
        precision->name());
  policy->linear_method = linear.get();
}

Predictor::Predictor(const Model& model, PredictorOptions options)
    : body_(std::make_shared<Body>(model, options)) {}

Predictor::Predictor(const Model& model, const std::filesystem::path& weights,
                     PredictorOptions options)
    : Predictor(loaded(model, weights), std::move(options)) {}

Tensor Predictor::operator()(const Tensor& x) const {
  const Tensors y = (*this)(Tensors(x));
  if (y.size() != 1)
    fail("{}: called with one tensor, which gives one; got {} ({}), want a call with Tensors",
         body_->model->kind(), y.size(), y.names());
  return y.only();
}

Tensors Predictor::operator()(const Tensors& x) const {
  const kernels::TraceScope span("predict", kernels::SpanKind::phase);
  Body& body = *body_;
  check(std::ranges::none_of(body.modules, &Module::training),
        "predictor: its model is in training mode; want eval(), or another model for the training");
  const kernels::ThreadCountScope threads(body.threads > 0 ? body.threads
                                                           : kernels::thread_count());
  const NoGradGuard no_grad;
  const ConstantCasts::Scope casts(*body.casts);
  const PolicyScope numbers(body.policy ? &*body.policy : nullptr);
  const Tensors y = body.model(
      x.map([&](const Tensor& one) { return body.precision->cast_input(one.to(body.device)); }));
  return y.map([&](const Tensor& one) { return body.precision->cast_output(one); });
}

}  // namespace booster
