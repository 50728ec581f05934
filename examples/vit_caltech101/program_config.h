// This program's additions to the library's config: the sections `data` and `train`, its own
// arguments, and Caltech101's number of classes as the default.
#pragma once

#include <booster/booster.h>

namespace example {

booster::ProgramConfig program_config();

}  // namespace example
