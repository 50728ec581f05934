// The table of the CUDA kernels. A kernel that is in no source of kernels/meson.build's CUDA list
// has a null entry, which raises an error that names it: its weak symbol is then undefined.
#include "kernels/catalogue.h"

namespace booster::kernels::cuda {

#define KERNEL(name, ...) [[gnu::weak]] void name(__VA_ARGS__);
#include "kernels/catalogue.def"

extern const Table table;
const Table table = {
#define KERNEL(name, ...) {&name, #name},
#include "kernels/catalogue.def"
};

}  // namespace booster::kernels::cuda
