// Checks of options that do not fit together.
#pragma once

#include "booster/config/config.h"

namespace booster {

// Adds to `mistakes` what the constructors of model, optimizer, schedule and strategy would refuse:
// options that do not fit together. Makes nothing large. Skips sections that have mistakes already.
// Has the thread rules of Mistakes.
void check_together(const Config& config, Mistakes& mistakes);

}  // namespace booster
