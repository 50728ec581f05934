#include "plugins/data_axis.h"

#include "plugins/fsdp.h"
#include "plugins/low_level_zero.h"
#include "plugins/torch_ddp.h"

namespace booster {

std::unique_ptr<DataParallelPlugin> plugin_along_data(const Mesh& mesh, int64_t zero_stage,
                                                      double message_mb) {
  constexpr double bytes_of_f32 = 4;
  switch (zero_stage) {
    case 0: return std::make_unique<TorchDdp>(TorchDDPOptions{.bucket_cap_mb = message_mb}, mesh);
    case 1:
    case 2:
      return std::make_unique<LowLevelZero>(
          LowLevelZeroOptions{.stage = zero_stage,
                              .reduce_bucket_size_in_m = message_mb / bytes_of_f32},
          mesh);
    case 3: return std::make_unique<Fsdp>(FsdpOptions{}, mesh);
    default: break;
  }
  fail(
      "hybrid_parallel: unknown zero_stage; got {}, want 0 (none), 1 (optimizer state), 2 (and "
      "gradients) or 3 (and parameters)",
      zero_stage);
}

}  // namespace booster
