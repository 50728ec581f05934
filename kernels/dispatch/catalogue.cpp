#include "kernels/catalogue.h"

#include "kernels/cpu/library.h"
#include "kernels/device/cuda_module.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "platform/waiting.h"

#include <atomic>
#include <string_view>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
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

#ifdef __x86_64__
namespace amx {
#define DEVICE_KERNEL(...)
#define KERNEL(name, ...) void name(__VA_ARGS__);
#include "kernels/catalogue.def"
}  // namespace amx
#endif

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

// Asks Linux to save tile registers, which it then does for all threads. It may refuse.
bool may_use_tiles() {
#ifdef __linux__
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}
bool runs_amx() {
  static const bool runs = [] {
    constexpr unsigned tile_bf16 = 1u << 22, tile = 1u << 24;
    unsigned eax, ebx, ecx, edx;
    const bool has_tiles = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & tile_bf16) &&
                           (edx & tile);
    return runs_avx512_bf16() && has_tiles && may_use_tiles();
  }();
  return runs;
}

const Table& amx_table() {
  static const Table table = [] {
    Table changed = avx512_bf16::table;
    changed.attention.function = amx::attention;
    changed.attention_backward.function = amx::attention_backward;
    return changed;
  }();
  return table;
}
#endif

const std::vector<Variant>& all_variants() {
  // Never destroyed: threads may still compute when the program ends.
  static const auto& variants = *new std::vector<Variant>{
      {"portable", &portable::table, runs_always},
#ifdef __x86_64__
      {"avx2", &avx2::table, runs_avx2},
      {"avx512", &avx512::table, runs_avx512},
      {"avx512_bf16", &avx512_bf16::table, runs_avx512_bf16},
      {"amx", &amx_table(), runs_amx},
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
  check_thread_setting();
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
