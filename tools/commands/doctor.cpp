#include "booster/profile/machine.h"
#include "booster/profile/machine_speed.h"
#include "kernels/catalogue.h"
#include "kernels/cpu/library.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "parallel/backends/gpu_link.h"
#include "parallel/backends/mpi_here.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "platform/program.h"
#include "tools/commands/commands.h"
#include "tools/doctor/gpu_capability.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <jpeglib.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <png.h>

#include <thread>

#include <unistd.h>

namespace booster::cli {

namespace {

struct Doctor {
  std::string capability;   // compute capability of a GPU, "7.5"; empty: this machine
  std::string device_name;  // of that GPU
  bool json = false;
};

using Json = nlohmann::ordered_json;

// Rows of a name and a text: printed as they arrive, or one JSON object at the end.
class Report {
 public:
  explicit Report(bool json) : as_json_(json) {}

  template <class... T>
  void row(const std::string& what, fmt::format_string<T...> format, T&&... values) {
    const std::string text = fmt::vformat(format, fmt::make_format_args(values...));
    if (as_json_)
      json_[what] = text;
    else
      fmt::print("{:<16} {}\n", what, text);
  }
  // Adds the text for humans, or else the JSON.
  void object(const std::string& what, const std::string& text, const Json& json) {
    if (as_json_)
      json_[what] = json;
    else
      row(what, "{}", text);
  }
  void end() const {
    // A GPU's name is user input and may be invalid UTF-8.
    if (as_json_) fmt::print("{}\n", json_.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  bool as_json_;
  Json json_ = Json::object();
};

double gibibytes(long pages) {
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
}

void report_cpu(Report& report) {
  report.row("processor", "{}", processor_name());
  report.row("cores", "{} usable of {}; {} threads for kernels", usable_cores(),
             std::thread::hardware_concurrency(), kernels::thread_count());
  report.row("memory", "{:.1f} GiB, {:.1f} GiB free", gibibytes(sysconf(_SC_PHYS_PAGES)),
             gibibytes(sysconf(_SC_AVPHYS_PAGES)));
  report.row("CPU variants", "{}; in use: {}", fmt::join(kernels::cpu_variants(), ", "),
             kernels::cpu_variant());
}

constexpr double seconds_per_rate = 0.6;

// Reports this processor's rates, measured in about two seconds, and the choice of "auto".
void report_speed(Report& report) {
  const AutoPrecision choice = auto_precision();
  report.row("memory rate", "{:.1f} GB/s read and written by a large copy",
             measure_copy_gbytes_per_s(seconds_per_rate));
  const double f32 = measure_matmul_gflops(DType::f32, seconds_per_rate);
  const double bf16 = measure_matmul_gflops(DType::bf16, seconds_per_rate);
  report.row("matmul rate", "{:.0f} GFLOP/s in f32, {:.0f} in bf16 ({:.2f} x)", f32, bf16,
             bf16 / f32);
  report.row("bf16", "{}; mixed_precision \"auto\" is {}: {}",
             has_native_bf16() ? "native" : "not native", choice.name, choice.reason);
}

Json json_of(const numerics::Capability& capability) {
  Json units = Json::object();
  for (const std::string& dtype : numerics::matrix_unit_dtypes())
    units[dtype] = numerics::has_matrix_units(dtype, capability);
  return {{"capability", fmt::format("{}.{}", capability.major, capability.minor)},
          {"matrix_units", units}};
}

// Reports one of NVIDIA's libraries: its name, its use on GPUs, and the query of the module for it.
void report_library(Report& report, const char* name, const char* what,
                    kernels::LibraryHere (*kernels::CudaModule::*ask)()) {
  const kernels::CudaModule* module = kernels::cuda_module();
  const auto [version, missing] =
      module ? (module->*ask)() : kernels::LibraryHere{0, kernels::why_no_cuda_module()};
  if (version > 0)
    report.row(name, "{}.{}.{}, {} on GPUs", version / 10000, version / 100 % 100, version % 100,
               what);
  else
    report.row(name, "off: {}", missing);
}

void report_gpus(Report& report) {
  Json all = Json::array();
  std::string text;
  for (const kernels::CudaDevice& device : kernels::cuda_devices()) {
    const numerics::Capability capability = {device.major, device.minor};
    const double memory = static_cast<double>(device.bytes) / (1 << 30);
    Json one = {{"name", device.name}, {"memory_gib", memory}};
    one.update(json_of(capability));
    all.push_back(one);
    text += fmt::format("{}{}, {:.1f} GiB, {}", text.empty() ? "" : fmt::format("\n{:17}", ""),
                        device.name, memory, numerics::capability_summary(capability));
  }
  if (!kernels::cuda_module())
    text = "off: " + kernels::why_no_cuda_module();
  else if (text.empty())
    text = "none: no CUDA driver, or no usable device";
  report.object("GPUs", text, all);
  report_library(report, "cuBLASLt", "matrix products", &kernels::CudaModule::products);
  report_library(report, "cuDNN", "convolutions", &kernels::CudaModule::convolutions);
  const NcclHere nccl = nccl_here();
  report.row("NCCL", "{}",
             nccl.version > 0 ? nccl_version(nccl.version) + ", between ranks with one GPU each"
                              : "off: " + nccl.missing);
}

// Prints a row per strategy: whether its products run on matrix units there, and if not, which
// strategy's products do.
int report_strategies(const Doctor& what) {
  const numerics::Capability gpu = numerics::parse_capability(what.capability);
  const std::string name = what.device_name.empty() ? "a GPU" : what.device_name;
  Report report(what.json);
  Json json = {{"name", name}};
  json.update(json_of(gpu));
  report.object("GPU", name + ", " + numerics::capability_summary(gpu), json);
  for (const auto& [strategy, dtype, fast, instead] : numerics::strategies_on(gpu)) {
    std::string text = dtype + (fast ? " on matrix units" : ", not on matrix units");
    if (!instead.empty())
      text = *numerics::capability_warning(dtype, name, gpu) + "; use " + instead;
    report.object(strategy, text,
                  {{"dtype", dtype}, {"matrix_units", fast}, {"instead", instead}, {"text", text}});
  }
  report.end();
  return 0;
}

void report_libraries(Report& report) {
  report.row("oneDNN", "{}, instruction set {}", kernels::cpu::library_version(),
             kernels::cpu::library_isa());
  report.row("libjpeg", "{} (libjpeg-turbo, API {})", BOOSTER_JPEG_VERSION, JPEG_LIB_VERSION);
  report.row("libpng", "{}", png_get_libpng_ver(nullptr));
  report.row("libcrypto", "{}", OpenSSL_version(OPENSSL_VERSION));
  report.row("fmt", "{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  report.row("nlohmann_json", "{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
             NLOHMANN_JSON_VERSION_PATCH);
#ifdef BOOSTER_HAS_GLOO
  report.row("Gloo", "on: several ranks on CPUs");
#else
  report.row("Gloo", "off: built without libgloo-dev; only one rank");
#endif
  const MpiHere mpi = mpi_here();
  report.row(
      "MPI", "{}",
      mpi.version.empty() ? "off: " + mpi.missing : mpi.version + ", with BOOSTER_BACKEND=mpi");
}

int doctor(const Doctor& what) {
  if (!what.capability.empty()) return report_strategies(what);
  check(what.device_name.empty(),
        "doctor: --device-name names the GPU of --capability; got only --device-name, want both");
  Report report(what.json);
  report.row("booster", "{}, built by {} {}", version, BOOSTER_COMPILER, __VERSION__);
  report_cpu(report);
  report_speed(report);
  report_gpus(report);
  report_libraries(report);
  report.end();
  return 0;
}

}  // namespace

Action doctor_command(CLI::App& line) {
  const auto asked = std::make_shared<Doctor>();
  line.add_option("--capability", asked->capability,
                  "MAJOR.MINOR: show each strategy on a GPU of this capability");
  line.add_option("--device-name", asked->device_name, "of that GPU");
  add_json(line, asked->json);
  return [asked](const Words&) { return doctor(*asked); };
}

}  // namespace booster::cli
