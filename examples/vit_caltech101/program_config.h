// What this program adds to the library's config: the sections `data` and `train`, arguments of its
// own, and as many classes as Caltech101 has.
#pragma once

#include <booster/booster.h>

namespace example {

booster::ProgramConfig program_config();

}  // namespace example
