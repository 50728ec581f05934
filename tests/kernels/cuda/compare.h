// Runs a kernel on a GPU and on the CPU, on the same values. Without a GPU such tests are skipped;
// the CPU emulator of CUDA in tests/cuda_on_host runs them on every machine.
#pragma once

#include "tests/kernels/everywhere.h"
#include "tests/on_gpu.h"

#include <memory>
#include <optional>

namespace booster::kernels::test {

// A copy of n host bytes in the GPU's memory.
class GpuCopy {
 public:
  GpuCopy(const void* host, size_t bytes) : data_(device_allocate(gpu, bytes)) {
    device_copy(data_, gpu, host, {}, bytes);
  }
  explicit GpuCopy(const Plain& tensor) : GpuCopy(tensor.bytes->data(), tensor.bytes->size()) {}
  ~GpuCopy() { device_free(gpu, data_); }
  GpuCopy(const GpuCopy&) = delete;
  void* data() const { return data_; }
  View view_like(const Plain& tensor) const {
    View view = tensor.view();
    view.data = data_;
    view.device = gpu;
    return view;
  }
  void fetch(void* host, size_t bytes) const { device_copy(host, {}, data_, gpu, bytes); }
  Plain fetch(const Plain& like) const {
    Plain tensor = like;
    fetch(tensor.bytes->data(), tensor.bytes->size());
    return tensor;
  }

 private:
  void* data_;
};

// Returns the tolerance for another order of additions, for fused multiply-adds and for the GPU's
// own sinf and powf. `magnitude` is the size of a sum's terms; the result may be a small difference
// of them.
inline double allowed(DType dtype, double want, double magnitude) {
  const double size = std::abs(want) + magnitude;
  switch (dtype) {
    case DType::f32: return size * 4e-6;
    case DType::f64: return size * 1e-13;
    case DType::f16: return size * 0x1p-10;
    case DType::bf16: return size * 0x1p-7;
    default: return 0;
  }
}

// `computed` is the dtype of the computation, if it differs from the tensors' dtype.
inline void check_same(const Plain& got, const Plain& want, DType computed,
                       double magnitude = 0.1) {
  const Numbers a = numbers(got), b = numbers(want);
  int wrong = 0;
  for (size_t i = 0; i < a.size() && wrong < 3; ++i) {
    if (close(a[i], b[i], allowed(computed, b[i], magnitude))) continue;
    const std::string dtype = name_of(want.dtype);
    FAIL_CHECK("element " << i << " of " << dtype << ": got " << a[i] << ", want " << b[i]
                          << " as on the CPU");
    ++wrong;
  }
}

inline void check_same(const Plain& got, const Plain& want) { check_same(got, want, want.dtype); }

// Tensors in the GPU's memory.
class GpuCopies {
 public:
  explicit GpuCopies(const std::vector<Plain>& tensors) {
    for (const Plain& tensor : tensors) {
      copies_.push_back(std::make_unique<GpuCopy>(tensor));
      views.push_back(copies_.back()->view_like(tensor));
    }
  }
  Plain fetch(size_t i, const Plain& like) const { return copies_[i]->fetch(like); }
  std::vector<View> views;

 private:
  std::vector<std::unique_ptr<GpuCopy>> copies_;
};

inline std::vector<View> views_of(const std::vector<Plain>& tensors) {
  std::vector<View> views;
  for (const Plain& tensor : tensors) views.push_back(tensor.view());
  return views;
}

// Runs kernel(table, outputs, inputs) on both devices and compares the outputs. Kernels that add to
// their outputs find the same initial values on both. `computed`: see check_same.
template <class Kernel>
void compare_all(const std::vector<Plain>& outputs, const std::vector<Plain>& inputs,
                 Kernel&& kernel, std::optional<DType> computed = {}, double magnitude = 0.1) {
  const GpuCopies there(inputs), results(outputs);
  kernel(on(gpu), results.views, there.views);
  const std::vector<Plain> want = outputs;
  kernel(on({}), views_of(want), views_of(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    CAPTURE(i);
    check_same(results.fetch(i, want[i]), want[i], computed.value_or(outputs[i].dtype), magnitude);
  }
}

// Returns an unwritten output: a kernel must write all of it.
inline Plain unwritten(DType dtype, const Index& shape) {
  Plain tensor = zeros(dtype, shape);
  tensor.fill_bytes(0xFF);
  return tensor;
}

// Does the same with one output.
template <class Kernel>
void compare(const Plain& output, const std::vector<Plain>& inputs, Kernel&& kernel,
             std::optional<DType> computed = {}, double magnitude = 0.1) {
  compare_all(
      {output}, inputs,
      [&](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
        kernel(table, out[0], in);
      },
      computed, magnitude);
}

}  // namespace booster::kernels::test
