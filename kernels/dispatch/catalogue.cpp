#include "kernels/catalogue.h"

#include "kernels/cpu/library.h"
#include "kernels/device/cuda_module.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/waiting.h"

#include <atomic>
#include <string_view>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace booster::kernels {

#define VARIANT(name)       \
  namespace name {          \
  extern const Table table; \
  }
VARIANT(portable)
#ifdef __x86_64__
VARIANT(avx2)
VARIANT(avx512)
VARIANT(avx512_bf16)
#endif
#undef VARIANT

namespace {

struct Variant {
  std::string name;
  const Table* table;
  bool (*runs)();
};

bool runs_always() { return true; }

#ifdef __x86_64__
// Uses cpuid because clang's __builtin_cpu_supports does not know f16c.
bool runs_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && runs_f16c();
}
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool runs_avx512_bf16() { return runs_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> variants = {
      {"portable", &portable::table, runs_always},
#ifdef __x86_64__
      {"avx2", &avx2::table, runs_avx2},
      {"avx512", &avx512::table, runs_avx512},
      {"avx512_bf16", &avx512_bf16::table, runs_avx512_bf16},
#endif
  };
  return variants;
}

const Variant& find_variant(std::string_view name) {
  for (const auto& variant : all_variants())
    if (variant.name == name && variant.runs()) return variant;
  fail("CPU variant: this processor does not support it; got {}{}", name,
       legal_names(name, cpu_variants()));
}

const Variant& initial_variant() {
  const std::string wanted = environment::text("BOOSTER_CPU_VARIANT");
  const Variant& variant = find_variant(wanted.empty() ? cpu_variants().back() : wanted);
  if (!wanted.empty()) cpu::limit_library(variant.name);
  return variant;
}

std::atomic<const Variant*>& current() {
  static std::atomic<const Variant*> variant = &initial_variant();
  return variant;
}

}  // namespace

std::vector<std::string> cpu_variants() {
  std::vector<std::string> names;
  for (const auto& variant : all_variants())
    if (variant.runs()) names.push_back(variant.name);
  return names;
}

const std::string& cpu_variant() { return current().load()->name; }

void force_cpu_variant(const std::string& name) { current().store(&find_variant(name)); }

const Table& on(Device device) {
  if (device.type == DeviceType::cpu) [[likely]] {
    adapt_waiting();
    return *current().load(std::memory_order_relaxed)->table;
  }
  const CudaModule& cuda = cuda_module_for(device);
  cuda.use(device.index);
  return *cuda.table;
}

void check_misplaced(const char* name, DeviceType device, const View& view) {
  refuse_to_record(name, "because a replay would use the CPU's present number",
                   "the number on that GPU");
  const auto described = [](DeviceType type) { return type == DeviceType::cpu ? "cpu" : "cuda"; };
  bool is_number = device == DeviceType::cuda;
  for (int i = 0; i < view.ndim; ++i) is_number &= view.shape[i] == 1 || view.strides[i] == 0;
  check(is_number, "{}: its tensors are on different devices; got {} and {}, want one", name,
        described(device), described(view.device.type));
}

void missing_kernel(const char* name) { fail("{}: no kernel for this device", name); }

}  // namespace booster::kernels
