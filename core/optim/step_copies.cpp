#include "core/optim/step_copies.h"

#include "kernels/device/memory.h"

namespace booster {

const Staging& StepCopies::staging(const Tensor& x) {
  if (!staging_) staging_.emplace(x.device());
  return *staging_;
}

Tensor StepCopies::read(const Tensor& x) {
  if (is_home(x)) return x;
  read_.push_back(staging(x).on_host(x));
  return read_.back();
}

Tensor StepCopies::update(const Tensor& x) {
  if (is_home(x)) return x;
  written_.emplace_back(x, staging(x).on_host(x));
  return written_.back().second;
}

Tensor StepCopies::overwrite(const Tensor& x) {
  if (is_home(x)) return x;
  written_.emplace_back(x, staging(x).to_fill(x.shape(), x.dtype()));
  return written_.back().second;
}

void StepCopies::give_back() const {
  for (const auto& [there, here] : written_)
    kernels::device_copy(there.data(), there.device(), here.data(), home_,
                         static_cast<size_t>(here.bytes()));
}

}  // namespace booster
