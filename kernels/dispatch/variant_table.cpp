// Fills the table of one CPU variant; compiled once per variant.
#include "kernels/catalogue.h"

namespace booster::kernels {

namespace cpu {
#define KERNEL(...)
#define DEVICE_KERNEL(name, ...) void name(__VA_ARGS__);
#include "kernels/catalogue.def"
}  // namespace cpu

namespace BOOSTER_VARIANT {

#define DEVICE_KERNEL(...)
#define KERNEL(name, ...) void name(__VA_ARGS__);
#include "kernels/catalogue.def"

extern const Table table;
const Table table = {
#define KERNEL(name, ...) {&BOOSTER_VARIANT::name, #name},
#define DEVICE_KERNEL(name, ...) {&cpu::name, #name},
#include "kernels/catalogue.def"
};

}  // namespace BOOSTER_VARIANT
}  // namespace booster::kernels
