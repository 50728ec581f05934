#include "core/tensor/exchange/dlpack.h"

#include "kernels/device/cuda_module.h"
#include "kernels/host/recording.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace booster {

namespace {

using namespace dlpack;

constexpr DLDataType types[] = {{kDLFloat, 32, 1},  {kDLFloat, 64, 1}, {kDLFloat, 16, 1},
                                {kDLBfloat, 16, 1}, {kDLInt, 32, 1},   {kDLInt, 64, 1},
                                {kDLUInt, 8, 1},    {kDLBool, 8, 1}};  // by DType

// The other side's stream, for the order of a GPU's work.
struct Other {
  // Orders this library's queued work before later work of the other side.
  void follow_us() const {
    if (device.type == DeviceType::cpu) return;
    const kernels::CudaModule& cuda = kernels::cuda_module_for(device);
    if (stream)
      cuda.mark(device.index, nullptr)->precede(stream);
    else
      cuda.synchronize(device.index);
  }
  // Orders the other side's queued work before later work of this library.
  void precede_us() const {
    if (device.type == DeviceType::cpu) return;
    const kernels::CudaModule& cuda = kernels::cuda_module_for(device);
    if (stream)
      cuda.mark(device.index, stream)->precede(nullptr);
    else
      cuda.synchronize_all(device.index);
  }

  Device device;
  void* stream;
};

// Ignores errors, for destructors and deleters. After a failure of the GPU there is no order, and
// no work uses the memory.
template <class Order>
void try_to(Order&& order) {
  try {
    order();
  } catch (const Error&) {
  }
}

void refuse_to_record(const char* name) {
  kernels::refuse_to_record(name, "because the recording does not include the other library's work",
                            "the call before the capture, or after replay()");
}

// Owner of a structure passed to the other side.
template <class Managed>
struct Given {
  Given(const Tensor& x, const Other& taker)
      : taker(taker), tensor(x), shape(x.shape().to_vector()), strides(x.strides().to_vector()) {
    DLTensor& out = managed.dl_tensor;
    // The pointer includes the offset: some readers forget the field.
    out.data = x.data();
    out.device = {x.device().type == DeviceType::cuda ? kDLCUDA : kDLCPU, x.device().index};
    out.ndim = x.ndim();
    out.dtype = types[static_cast<size_t>(x.dtype())];
    out.shape = shape.data();
    out.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Given*>(self->manager_ctx); };
  }
  ~Given() {
    try_to([&] { taker.precede_us(); });
  }
  Given(const Given&) = delete;

  Other taker;
  Tensor tensor;
  std::vector<int64_t> shape, strides;
  Managed managed;
};

template <class Managed>
Managed* give(const Tensor& x, void* stream) {
  refuse_to_record("to_dlpack");
  check(!x.requires_grad(), "to_dlpack: the tensor requires gradients; want x.detach()");
  const Other taker{x.device(), stream};
  auto given = std::make_unique<Given<Managed>>(x, taker);
  taker.follow_us();
  return &given.release()->managed;
}

DType dtype_of(DLDataType type) {
  const auto found = std::ranges::find_if(types, [&](const DLDataType& each) {
    return each.code == type.code && each.bits == type.bits && each.lanes == type.lanes;
  });
  check(found != std::end(types),
        "from_dlpack: unsupported dtype; got code {}, {} bits, {} lanes, want f32, f64, f16, bf16, "
        "i32, i64, u8 or bool",
        type.code, type.bits, type.lanes);
  return static_cast<DType>(found - std::begin(types));
}

Device device_of(DLDevice device) {
  check(device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
            device.device_type == kDLCUDA,
        "from_dlpack: unsupported device; got type {}, want 1 (CPU), 2 (CUDA) or 3 (CUDA host "
        "memory)",
        device.device_type);
  if (device.device_type != kDLCUDA) return {};
  check(device.device_id >= 0 && device.device_id < 128, "from_dlpack: wrong device; got number {}",
        device.device_id);
  return {DeviceType::cuda, static_cast<int8_t>(device.device_id)};
}

// Returns the number of elements from the first to the last one that the strides reach.
int64_t extent(const Shape& shape, const Shape& strides) {
  if (shape.numel() == 0) return 0;
  int64_t last = 0;
  bool exceeds = false;
  for (int i = 0; i < shape.ndim(); ++i) {
    check(strides[i] >= 0, "from_dlpack: negative strides; got {}", strides);
    int64_t reach = 0;
    exceeds |= __builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  check(!exceeds && last < (int64_t{1} << 56), "from_dlpack: strides {} of shape {} are too large",
        strides, shape);
  return last + 1;
}

template <class Managed>
Tensor take(Managed* managed, void* stream) {
  refuse_to_record("from_dlpack");
  const auto release = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
  // An error releases it, until a storage owns it.
  std::shared_ptr<void> owner(managed, [release](void*) { release(); });
  const DLTensor& in = managed->dl_tensor;
  check(in.ndim >= 0 && in.ndim <= kernels::max_dims,
        "from_dlpack: too many dimensions; got {}, want at most {}", in.ndim, kernels::max_dims);
  const TensorOptions options = {.dtype = dtype_of(in.dtype), .device = device_of(in.device)};
  const Shape shape(in.shape, static_cast<size_t>(in.ndim));
  check(std::ranges::all_of(shape, [](int64_t size) { return size >= 0; }),
        "from_dlpack: negative sizes; got {}", shape);
  const Shape strides =
      in.strides ? Shape(in.strides, static_cast<size_t>(in.ndim)) : shape.dense_strides();
  char* data = static_cast<char*>(in.data) + in.byte_offset;
  check(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(options.dtype)) == 0,
        "from_dlpack: the memory is not aligned to elements of {}", name_of(options.dtype));
  const int64_t elements = extent(shape, strides);
  const Other giver{options.device, stream};
  giver.precede_us();
  const auto let_go = [owner, giver] { try_to([&] { giver.follow_us(); }); };
  const Tensor whole = from_memory(elements > 0 ? data : nullptr, {elements}, options, let_go);
  return elements > 0 ? untracked::strided(whole, shape, strides, 0)
                      : untracked::reshape(whole, shape);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x, void* stream) {
  return give<DLManagedTensorVersioned>(x, stream);
}
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, void* stream) {
  return give<DLManagedTensor>(x, stream);
}

Tensor from_dlpack(DLManagedTensorVersioned* tensor, void* stream) {
  check(tensor != nullptr, "from_dlpack: no tensor; got a null pointer");
  const bool readable = tensor->version.major == DLPackVersion().major;
  const bool read_only = readable && (tensor->flags & read_only_flag) != 0;
  if (readable && !read_only) return take(tensor, stream);
  const uint32_t major = tensor->version.major;
  // The fields of the version and of the deleter have the same offsets in every version.
  if (tensor->deleter) tensor->deleter(tensor);
  check(readable, "from_dlpack: wrong version of DLPack; got {}, want {}", major,
        DLPackVersion().major);
  fail("from_dlpack: the memory is read-only; want a copy of it, since operations may write");
}

Tensor from_dlpack(DLManagedTensor* tensor, void* stream) {
  check(tensor != nullptr, "from_dlpack: no tensor; got a null pointer");
  return take(tensor, stream);
}

}  // namespace booster
