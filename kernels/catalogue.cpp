#include "kernels/catalogue.h"

#include "kernels/cpu/library.h"
#include "kernels/system/error.h"
#include "kernels/system/threads.h"

#include <atomic>
#include <cstdlib>

namespace booster::kernels {

#define VARIANT(name) \
  namespace name {    \
  extern const Table table; \
  }
VARIANT(portable)
VARIANT(avx2)
VARIANT(avx512)
VARIANT(avx512_bf16)
#undef VARIANT

#ifdef BOOSTER_CUDA
namespace cuda {
extern const Table table;
}
#endif

namespace {

struct Variant {
  std::string name;
  const Table* table;
  bool (*runs)();
};

bool runs_always() { return true; }
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool runs_avx512_bf16() { return runs_avx512() && __builtin_cpu_supports("avx512bf16"); }

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> variants = {
      {"portable", &portable::table, runs_always},
      {"avx2", &avx2::table, runs_avx2},
      {"avx512", &avx512::table, runs_avx512},
      {"avx512_bf16", &avx512_bf16::table, runs_avx512_bf16},
  };
  return variants;
}

const Variant& find_variant(const std::string& name) {
  for (const auto& variant : all_variants())
    if (variant.name == name && variant.runs()) return variant;
  fail("CPU variant: this processor does not run it; got {}{}", name,
       legal_names(name, cpu_variants()));
}

const Variant& initial_variant() {
  shorten_waiting();
  const char* wanted = std::getenv("BOOSTER_CPU_VARIANT");
  const Variant& variant =
      wanted && *wanted ? find_variant(wanted) : find_variant(cpu_variants().back());
  if (wanted && *wanted) cpu::limit_library(variant.name);
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
  if (device.type == DeviceType::cpu) [[likely]]
    return *current().load(std::memory_order_relaxed)->table;
#ifdef BOOSTER_CUDA
  return cuda::table;
#else
  fail("device: this build has no CUDA kernels; got cuda:{}, want cpu (or configure with "
       "-Dcuda=enabled)", static_cast<int>(device.index));
#endif
}

void missing_kernel(const char* name) { fail("{}: has no kernel on this device", name); }

}  // namespace booster::kernels
