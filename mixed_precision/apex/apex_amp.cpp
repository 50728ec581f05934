#include "mixed_precision/apex/apex_amp.h"

#include "mixed_precision/apex/apex_body.h"

namespace booster {

ApexAmp::ApexAmp(FP16ApexOptions options) : body_(new ApexBody(std::move(options))) {}
ApexAmp::ApexAmp(const ApexAmp& other) : body_(new ApexBody(*other.body_)) {}
ApexAmp::~ApexAmp() = default;

const ApexProperties& ApexAmp::properties() const { return body_->properties(); }

void ApexAmp::register_half_function(const std::string& op) { body_->register_half_function(op); }
void ApexAmp::register_float_function(const std::string& op) { body_->register_float_function(op); }
void ApexAmp::register_promote_function(const std::string& op) {
  body_->register_promote_function(op);
}

void ApexAmp::initialize(const std::vector<Model>& models,
                         const std::vector<Optimizer>& optimizers) {
  body_->initialize(models, optimizers);
}

Tensor ApexAmp::forward(const Model& model, const Tensor& x) const {
  return body_->forward(model, x);
}
const OpPolicy* ApexAmp::policy(Device device) const { return body_->policy(device); }

void ApexAmp::scale_loss(const Tensor& loss, const std::vector<Optimizer>& optimizers,
                         const std::function<void(const Tensor& scaled)>& backward,
                         const ScaleLossOptions& options) {
  body_->scale_loss(loss, optimizers, backward, options);
}
void ApexAmp::step(Optimizer& optimizer) { body_->step(optimizer); }

void ApexAmp::set_listener(std::function<void(const std::string& line)> listener) {
  body_->set_listener(std::move(listener));
}
void ApexAmp::tell_overflows() { body_->tell_overflows(); }

LossScaler& ApexAmp::scaler(int loss_id) { return body_->loss(loss_id).scaler(); }
PrecisionNumbers ApexAmp::state() const { return body_->state(); }
void ApexAmp::load(const PrecisionNumbers& state) { body_->load(state); }

}  // namespace booster
