// The rules of kernels/optimizer/element_rules.h, by name: adadelta, adagrad, adamax, asgd, nadam,
// radam, rprop.
#pragma once

#include "core/optim/optimizers.h"
#include "core/optim/update_rule.h"

#include <memory>

namespace booster {

std::unique_ptr<UpdateRule> adadelta_rule();
std::unique_ptr<UpdateRule> adagrad_rule();
std::unique_ptr<UpdateRule> adamax_rule();
std::unique_ptr<UpdateRule> asgd_rule();
std::unique_ptr<UpdateRule> nadam_rule();
std::unique_ptr<UpdateRule> radam_rule();
std::unique_ptr<UpdateRule> rprop_rule();

OptimizerOptions options_of(const AdadeltaOptions& options);
OptimizerOptions options_of(const AdagradOptions& options);
OptimizerOptions options_of(const AdamaxOptions& options);
OptimizerOptions options_of(const ASGDOptions& options);
OptimizerOptions options_of(const NAdamOptions& options);
OptimizerOptions options_of(const RAdamOptions& options);
OptimizerOptions options_of(const RpropOptions& options);

}  // namespace booster
