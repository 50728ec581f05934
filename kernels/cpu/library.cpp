#include "kernels/cpu/library.h"

#include "kernels/system/error.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

namespace booster::kernels::cpu {

void limit_library(const std::string& variant) {
  const dnnl_cpu_isa_t isa = variant == "portable" ? dnnl_cpu_isa_sse41
                             : variant == "avx2"   ? dnnl_cpu_isa_avx2
                             : variant == "avx512" ? dnnl_cpu_isa_avx512_core
                                                   : dnnl_cpu_isa_avx512_core_bf16;
  check(dnnl_set_max_cpu_isa(isa) == dnnl_success,
        "CPU variant: oneDNN was used before it could be limited; got {}, want the limit first",
        variant);
}

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string library_isa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "SSE41";
    case dnnl_cpu_isa_avx: return "AVX";
    case dnnl_cpu_isa_avx2: return "AVX2";
    case dnnl_cpu_isa_avx2_vnni: return "AVX2_VNNI";
    case dnnl_cpu_isa_avx512_mic: return "AVX512_MIC";
    case dnnl_cpu_isa_avx512_mic_4ops: return "AVX512_MIC_4OPS";
    case dnnl_cpu_isa_avx512_core: return "AVX512_CORE";
    case dnnl_cpu_isa_avx512_core_vnni: return "AVX512_CORE_VNNI";
    case dnnl_cpu_isa_avx512_core_bf16: return "AVX512_CORE_BF16";
    case dnnl_cpu_isa_avx512_core_amx: return "AVX512_CORE_AMX";
    default: return "unknown";
  }
}

}  // namespace booster::kernels::cpu
