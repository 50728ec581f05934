#include "booster/cli/commands.h"
#include "booster/machine.h"
#include "booster/machine_speed.h"
#include "booster/version.h"
#include "kernels/catalogue.h"
#include "kernels/cpu/library.h"
#include "kernels/memory.h"
#include "kernels/threads.h"

#include <fmt/format.h>
#include <jpeglib.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <png.h>

#include <thread>

#include <dlfcn.h>
#include <unistd.h>

namespace booster::cli {

namespace {

template <class... T>
void row(const char* what, fmt::format_string<T...> format, T&&... values) {
  fmt::print("{:<16} {}\n", what, fmt::vformat(format, fmt::make_format_args(values...)));
}

double gibibytes(long pages) {
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
}

void report_cpu() {
  row("processor", "{}", processor_name());
  row("cores", "{} usable of {}; {} threads for kernels", usable_cores(),
      std::thread::hardware_concurrency(), kernels::thread_count());
  row("memory", "{:.1f} GiB, {:.1f} GiB free", gibibytes(sysconf(_SC_PHYS_PAGES)),
      gibibytes(sysconf(_SC_AVPHYS_PAGES)));
  row("CPU variants", "{}; in use: {}", fmt::join(kernels::cpu_variants(), ", "),
      kernels::cpu_variant());
}

constexpr double seconds_per_rate = 0.6;

// What this processor reaches in about two seconds of work, and what "auto" makes of it.
void report_speed() {
  const AutoPrecision choice = auto_precision();
  row("memory rate", "{:.1f} GB/s read and written by a large copy",
      measure_copy_gbytes_per_s(seconds_per_rate));
  const double f32 = measure_matmul_gflops(DType::f32, seconds_per_rate);
  const double bf16 = measure_matmul_gflops(DType::bf16, seconds_per_rate);
  row("matmul rate", "{:.0f} GFLOP/s in f32, {:.0f} in bf16 ({:.2f} x)", f32, bf16, bf16 / f32);
  row("bf16", "{}; mixed_precision \"auto\" is {}: {}", has_native_bf16() ? "native" : "not native",
      choice.name, choice.reason);
}

void report_gpu() {
#ifdef BOOSTER_CUDA
  row("GPUs", "{}", kernels::cuda_device_count());
#else
  row("GPUs", "off: built without CUDA (no nvcc when it was configured, or -Dcuda=disabled)");
#endif
  void* nccl = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  row("NCCL", "{}",
      nccl ? "library found; not used by this version" : "off: libnccl.so.2 is not installed");
}

void report_libraries() {
  row("oneDNN", "{}, instruction set {}", kernels::cpu::library_version(),
      kernels::cpu::library_isa());
  row("libjpeg", "{} (libjpeg-turbo, API {})", BOOSTER_JPEG_VERSION, JPEG_LIB_VERSION);
  row("libpng", "{}", png_get_libpng_ver(nullptr));
  row("libcrypto", "{}", OpenSSL_version(OPENSSL_VERSION));
  row("fmt", "{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  row("nlohmann_json", "{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
      NLOHMANN_JSON_VERSION_PATCH);
#ifdef BOOSTER_HAS_GLOO
  row("Gloo", "on: several ranks on CPUs");
#else
  row("Gloo", "off: built without libgloo-dev; only one rank");
#endif
}

}  // namespace

int doctor() {
  row("booster", "{}, built by {} {}", version, BOOSTER_COMPILER, __VERSION__);
  report_cpu();
  report_speed();
  report_gpu();
  report_libraries();
  return 0;
}

}  // namespace booster::cli
