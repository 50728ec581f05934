// The table of the CUDA kernels. A kernel that is in none of the CUDA sources in
// kernels/meson.build has an undefined weak symbol and so a null entry, which raises an error that
// names it.
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
