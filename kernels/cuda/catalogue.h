// The catalogue's kernels on a GPU, for kernels that are composed of others.
#pragma once

#include "kernels/catalogue.h"

namespace booster::kernels::cuda {

#define KERNEL(name, ...) void name(__VA_ARGS__);
#include "kernels/catalogue.def"

}  // namespace booster::kernels::cuda
