#include "booster/profile/machine.h"

#include "kernels/catalogue.h"
#include "kernels/cpu/library.h"
#include "kernels/device/memory.h"
#include "platform/threads.h"
#include "platform/program.h"

#include <fmt/format.h>

#include <fstream>

#include <sched.h>
#include <unistd.h>

namespace booster {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool has_native_bf16() {
  return kernels::cpu_variant() == "avx512_bf16" || kernels::cpu_variant() == "amx";
}

AutoPrecision auto_precision() {
  const std::string& variant = kernels::cpu_variant();
  if (has_native_bf16())
    return {"bf16", fmt::format("the CPU variant in use ({}) multiplies bf16 natively", variant)};
  return {"fp32", fmt::format("the CPU variant in use ({}) does not multiply bf16 natively, so "
                              "bf16 is slower than fp32",
                              variant)};
}

nlohmann::json machine_info() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {{"host", host},
          {"processor", processor_name()},
          {"cores", usable_cores()},
          {"memory_gib", bytes / (1 << 30)},
          {"variant", kernels::cpu_variant()},
          {"threads", kernels::thread_count()}};
}

nlohmann::json library_versions() {
  return {{"booster", version},
          {"onednn", kernels::cpu::library_version()},
          {"compiler", "g++ " __VERSION__}};
}

}  // namespace booster
