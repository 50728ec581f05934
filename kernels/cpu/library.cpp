#include "kernels/cpu/library.h"

#include "platform/error.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <cctype>
#include <string_view>

namespace booster::kernels::cpu {

void limit_library(const std::string& variant) {
#ifdef __x86_64__
  const dnnl_cpu_isa_t isa = variant == "portable" ? dnnl_cpu_isa_sse41
                             : variant == "avx2"   ? dnnl_cpu_isa_avx2
                             : variant == "avx512" ? dnnl_cpu_isa_avx512_core
                             : variant == "amx"    ? dnnl_cpu_isa_avx512_core_amx
                                                   : dnnl_cpu_isa_avx512_core_bf16;
  check(dnnl_set_max_cpu_isa(isa) == dnnl_success,
        "CPU variant: oneDNN was used before its limit was set; got {}, want the limit first",
        variant);
#else
  static_cast<void>(variant);  // only one variant exists
#endif
}

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string library_isa() {
  std::string name = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  if (constexpr std::string_view prefix = "cpu_isa_"; name.starts_with(prefix))
    name.erase(0, prefix.size());
  for (char& letter : name)
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

}  // namespace booster::kernels::cpu
