#include "parallel/groups/buffer.h"

namespace booster {

Buffer::Buffer(const kernels::View& view) : Buffer(view.data, view.size(), view.dtype) {
  check(view.device.type == DeviceType::cpu,
        "Buffer: the memory is not on the CPU; move the tensor to the host first");
  check(view.contiguous(), "Buffer: the tensor is not contiguous; make a contiguous copy first");
}

Buffer::Buffer(const Tensor& tensor) : Buffer(tensor.view()) {
  owner = std::make_shared<const Tensor>(tensor);
}

}  // namespace booster
