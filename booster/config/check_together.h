// Finds incompatible options.
#pragma once

#include "booster/config/config.h"

namespace booster {

// Adds incompatible options to `mistakes`: those that the constructors of model, optimizer,
// schedule and strategy would refuse. Allocates nothing large. Skips sections that already have
// mistakes. Has the thread rules of Mistakes.
void check_together(const Config& config, Mistakes& mistakes);

}  // namespace booster
