// The entry point to every kernel: `kernels::on(device).softmax(y, x, false)`.
//
// `on` returns the table of the device. For the CPU that is the best variant that this processor
// supports (chosen once, at first use). The environment variable BOOSTER_CPU_VARIANT may name a
// lower one (portable, avx2, avx512, avx512_bf16, amx). Thread-safe.
#pragma once

#include "kernels/arguments/fp8.h"
#include "kernels/arguments/image_batch.h"
#include "kernels/arguments/loss_scale.h"
#include "kernels/arguments/multi_tensor.h"
#include "kernels/arguments/view.h"
#include "kernels/arguments/visible_keys.h"
#include "kernels/call_trace.h"
#include "kernels/host/recording.h"

#include <string>
#include <vector>

namespace booster::kernels {

enum class UnaryOp : uint8_t {
#define UNARY(name, ...) name,
#include "kernels/elementwise.def"
};
enum class BinaryOp : uint8_t {
#define BINARY(name, ...) name,
#include "kernels/elementwise.def"
};
enum class CompareOp : uint8_t {
#define COMPARE(name, ...) name,
#include "kernels/elementwise.def"
};
// squares: the sum of the squares
enum class ReduceOp : uint8_t { sum, mean, amax, amin, any, all, squares };

[[noreturn]] void missing_kernel(const char* name);
// Throws, and names the kernel and both devices, unless the view is a single number on the host,
// which the call carries to a GPU.
void check_misplaced(const char* name, DeviceType device, const View& view);

template <class Signature>
struct Kernel;
template <class... Args>
struct Kernel<void(Args...)> {
  void (*function)(Args...) = nullptr;
  const char* name = nullptr;
  DeviceType device = DeviceType::cpu;
  void operator()(Args... args) const {
    if (!function) [[unlikely]]
      missing_kernel(name);
    if (device == DeviceType::cpu && is_recording()) [[unlikely]]
      refuse_to_record_on_cpu(name);
    (check_place(args), ...);
    if (is_tracing()) [[unlikely]]
      return call_traced(args...);
    function(args...);
  }

 private:
  template <class T>
  void check_place(const T&) const {}
  void check_place(const View& view) const {
    if (view.data && view.device.type != device) [[unlikely]] check_misplaced(name, device, view);
  }
  [[gnu::noinline]] void call_traced(const Args&... args) const {
    CallTrace trace(name, device);
    (trace.see(args), ...);
    trace.begin();
    function(args...);
  }
};

struct Table {
#define KERNEL(name, ...) Kernel<void(__VA_ARGS__)> name{nullptr, #name};
#include "kernels/catalogue.def"
};

const Table& on(Device device);

// Returns the names of the CPU variants that this processor supports, lowest first.
std::vector<std::string> cpu_variants();
// Returns the variant in use.
const std::string& cpu_variant();
// Tests only: switches the variant of `on({cpu})`; throws Error for a name not in cpu_variants().
void force_cpu_variant(const std::string& name);

}  // namespace booster::kernels
