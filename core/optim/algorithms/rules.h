// The rules of the optimizers, and their options as numbers by name.
#pragma once

#include "core/optim/optimizers.h"
#include "core/optim/update_rule.h"

#include <memory>

namespace booster {

std::unique_ptr<UpdateRule> adadelta_rule();
std::unique_ptr<UpdateRule> adafactor_rule();
std::unique_ptr<UpdateRule> adagrad_rule();
std::unique_ptr<UpdateRule> adam_rule();
std::unique_ptr<UpdateRule> adamax_rule();
std::unique_ptr<UpdateRule> adamw_rule();
std::unique_ptr<UpdateRule> asgd_rule();
std::unique_ptr<UpdateRule> lamb_rule();
std::unique_ptr<UpdateRule> lbfgs_rule();
std::unique_ptr<UpdateRule> muon_rule();
std::unique_ptr<UpdateRule> nadam_rule();
std::unique_ptr<UpdateRule> radam_rule();
std::unique_ptr<UpdateRule> rmsprop_rule();
std::unique_ptr<UpdateRule> rprop_rule();
std::unique_ptr<UpdateRule> sgd_rule();

OptimizerOptions options_of(const AdadeltaOptions& options);
OptimizerOptions options_of(const AdafactorOptions& options);
OptimizerOptions options_of(const AdagradOptions& options);
OptimizerOptions options_of(const AdamOptions& options);
OptimizerOptions options_of(const AdamaxOptions& options);
OptimizerOptions options_of(const AdamWOptions& options);
OptimizerOptions options_of(const ASGDOptions& options);
OptimizerOptions options_of(const LAMBOptions& options);
OptimizerOptions options_of(const LBFGSOptions& options);
OptimizerOptions options_of(const MuonOptions& options);
OptimizerOptions options_of(const NAdamOptions& options);
OptimizerOptions options_of(const RAdamOptions& options);
OptimizerOptions options_of(const RMSpropOptions& options);
OptimizerOptions options_of(const RpropOptions& options);
OptimizerOptions options_of(const SGDOptions& options);

}  // namespace booster
