#include "tests/cuda_on_host/faults/scenarios.h"

#include "kernels/cuda/ptx.cuh"

#include <vector>

using booster::kernels::cuda::for_each_block;
using booster::kernels::cuda::threads_per_block;

namespace cuda_on_host::faults {
namespace {

// Values in device memory.
class Numbers {
 public:
  explicit Numbers(int count) : count_(count) {
    CUDA_CALL(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float)));
  }
  // 0, 1, 2, ...
  static Numbers counted(int count) {
    Numbers numbers(count);
    std::vector<float> values(count);
    for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    numbers.write(values);
    return numbers;
  }
  Numbers(Numbers&& other) : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
  ~Numbers() { cudaFree(data_); }
  void write(const std::vector<float>& values) {
    CUDA_CALL(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(float),
                              cudaMemcpyDefault, stream()));
  }
  std::vector<float> read() const {
    std::vector<float> values(count_);
    CUDA_CALL(cudaMemcpyAsync(values.data(), data_, values.size() * sizeof(float),
                              cudaMemcpyDefault, stream()));
    CUDA_CALL(cudaStreamSynchronize(stream()));
    return values;
  }
  float* data() const { return data_; }
  static cudaStream_t stream() { return booster::kernels::cuda::current_stream(); }

 private:
  float* data_ = nullptr;
  int count_;
};

bool is_counted(const std::vector<float>& values, int from = 0) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<float>(from + static_cast<int>(i))) return false;
  return true;
}

// Launches a kernel on a chosen stream: out[i] = in[i] + more.
template <class Body>
__global__ void run_threads(const __grid_constant__ Body body) {
  body(static_cast<int>(threadIdx.x));
}
template <class Body>
void launch_on(cudaStream_t stream, int threads, Body body) {
  void* arguments[] = {&body};
  CUDA_CALL(cudaLaunchKernel(run_threads<Body>, 1, threads, arguments, 0, stream));
}

struct Stream {
  Stream() { CUDA_CALL(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle); }
  cudaStream_t handle;
};
struct Event {
  Event() { CUDA_CALL(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle); }
  cudaEvent_t handle;
};

}  // namespace

bool sum_in_block(bool waits) {
  const Numbers in = Numbers::counted(threads_per_block), out(1);
  for_each_block(1, [=, x = in.data(), y = out.data()] ON_DEVICE(int64_t) {
    SHARED(float, part, threads_per_block);
    const int thread = static_cast<int>(threadIdx.x);
    part[thread] = x[thread];
    for (int half = threads_per_block / 2; half > 0; half /= 2) {
      if (waits) __syncthreads();
      if (thread < half) part[thread] += part[thread + half];
    }
    if (thread == 0) *y = part[0];
  });
  return out.read()[0] == threads_per_block * (threads_per_block - 1) / 2;
}

bool sum_of_some(bool all_come) {
  const Numbers in = Numbers::counted(100), out(1);
  for_each_block(1, [=, x = in.data(), y = out.data()] ON_DEVICE(int64_t) {
    SHARED(float, part, threads_per_block);
    const int thread = static_cast<int>(threadIdx.x);
    if (!all_come && thread >= 100) return;
    part[thread] = thread < 100 ? x[thread] : 0;
    __syncthreads();
    if (thread > 0) return;
    float sum = 0;
    for (int i = 0; i < 100; ++i) sum += part[i];
    *y = sum;
  });
  return out.read()[0] == 4950;
}

bool copy_within(bool bounds) {
  const Numbers in = Numbers::counted(100), out(100);
  for_each_block(1, [=, x = in.data(), y = out.data()] ON_DEVICE(int64_t) {
    const int i = static_cast<int>(threadIdx.x);
    if (!bounds || i < 100) y[i] = x[i];
  });
  return is_counted(out.read());
}

bool copy_then_free(bool in_order) {
  const Numbers out(100);
  float* in = nullptr;
  CUDA_CALL(cudaMallocAsync(reinterpret_cast<void**>(&in), 400, Numbers::stream()));
  launch_on(Numbers::stream(), 100, [=] ON_DEVICE(int i) { in[i] = static_cast<float>(i); });
  if (!in_order) CUDA_CALL(cudaFreeAsync(in, Numbers::stream()));
  launch_on(Numbers::stream(), 100, [=, y = out.data()] ON_DEVICE(int i) { y[i] = in[i]; });
  if (in_order) CUDA_CALL(cudaFreeAsync(in, Numbers::stream()));
  return is_counted(out.read());
}

bool copy_written(bool written) {
  const Numbers in = written ? Numbers::counted(100) : Numbers(100), out(100);
  launch_on(Numbers::stream(), 100,
            [x = in.data(), y = out.data()] ON_DEVICE(int i) { y[i] = x[i]; });
  return is_counted(out.read());
}

bool write_apart(bool apart) {
  const Numbers out = Numbers::counted(8);
  for_each_block(8, [=, y = out.data()] ON_DEVICE(int64_t block) {
    if (threadIdx.x == 0) y[apart ? block : block / 2] = static_cast<float>(block);
  });
  return is_counted(out.read());
}

bool read_argument(bool of_device) {
  const Numbers in = Numbers::counted(10), out(10);
  static float on_host[10];
  for (int i = 0; i < 10; ++i) on_host[i] = static_cast<float>(i);
  const float* x = of_device ? in.data() : on_host;
  launch_on(Numbers::stream(), 10, [=, y = out.data()] ON_DEVICE(int i) { y[i] = x[i]; });
  return is_counted(out.read());
}

bool read_packed(bool aligned) {
  const Numbers in = Numbers::counted(8), out(4);
  launch_on(Numbers::stream(), 1, [=, x = in.data(), y = out.data()] ON_DEVICE(int) {
    const uint4 four = *reinterpret_cast<const uint4*>(x + (aligned ? 0 : 1));
    *reinterpret_cast<uint4*>(y) = four;
  });
  return is_counted(out.read());
}

bool rotate_in_warp(bool all_lanes) {
  const Numbers out(32);
  launch_on(Numbers::stream(), 32, [=, y = out.data()] ON_DEVICE(int lane) {
    if (!all_lanes && lane == 5) return;
    y[lane] =
        __shfl_sync(0xFFFFFFFF, static_cast<float>(lane + 31), lane + 1) - (lane == 31 ? 0 : 32);
    if (lane == 31) y[lane] = 31;
  });
  const std::vector<float> values = out.read();
  return values[0] == 0 && values[30] == 30;
}

bool fill_shared(bool fits) {
  const Numbers out(1);
  launch_on(Numbers::stream(), 1, [=, y = out.data()] ON_DEVICE(int) {
    SHARED(float, most, 12 * 1024);
    most[0] = 3;
    *y = most[0];
    if (fits) return;
    SHARED(float, more, 1);
    more[0] = 4;
    *y = more[0];
  });
  return out.read()[0] == 3;
}

bool copy_beside(bool waits) {
  const Numbers in = Numbers::counted(128), out(32);
  launch_on(Numbers::stream(), 32, [=, x = in.data(), y = out.data()] ON_DEVICE(int lane) {
    SHARED(uint4, quads, 32);
    ptx::cp_async_16(quads + lane, x + lane * 4, lane < 31 ? 16 : 0);
    if (waits) ptx::cp_async_wait_all();
    __syncwarp();
    const float* numbers = reinterpret_cast<const float*>(quads);
    y[lane] = numbers[lane < 31 ? lane + 4 : 31 * 4] + (lane < 31 ? -4 : 31);
  });
  return is_counted(out.read());
}

bool multiply_matrices(bool in_order) {
  const Numbers out(16 * 8);
  launch_on(Numbers::stream(), 32, [=, y = out.data()] ON_DEVICE(int lane) {
    SHARED(uint4, memory, 4 * 16);
    uint32_t* words = reinterpret_cast<uint32_t*>(memory);
    // A (row, k) = row + 2 k; B (k, column) = 3 k - column, followed by a second B.
    for (int i = lane; i < 128; i += 32) {
      const float row = static_cast<float>(i / 8), column = static_cast<float>(i % 8 * 2);
      words[i] = ptx::cvt_f16x2(row + 2 * column + 2, row + 2 * column);
      words[128 + i] = ptx::cvt_f16x2(3 * row - column - 1, 3 * row - column);
    }
    __syncwarp();
    uint32_t a[4], b[4];
    ptx::ldmatrix_x4(a, memory + lane % 16 * 2 + lane / 16);
    ptx::ldmatrix_x4_trans(b, memory + 32 + lane % 16 * 2 + lane / 16);
    const uint32_t swapped[4] = {a[0], a[2], a[1], a[3]};
    float sums[4] = {0, 0, 0, 0};
    ptx::mma_f16(sums, in_order ? a : swapped, b[0], b[1]);
    for (int i = 0; i < 4; ++i) y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
  });
  const std::vector<float> values = out.read();
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int want = 0;
      for (int k = 0; k < 16; ++k) want += (row + 2 * k) * (3 * k - column);
      if (values[row * 8 + column] != static_cast<float>(want)) return false;
    }
  return true;
}

bool multiply_together(bool all_lanes) {
  const Numbers out(32);
  launch_on(Numbers::stream(), 32, [=, y = out.data()] ON_DEVICE(int lane) {
    if (!all_lanes && lane == 5) return;
    const uint32_t ones = ptx::cvt_bf16x2(1, 1), a[4] = {ones, ones, ones, ones};
    float sums[4] = {0, 0, 0, 0};
    ptx::mma_bf16(sums, a, ones, ones);
    y[lane] = sums[lane % 4] - 16 + static_cast<float>(lane);
  });
  return is_counted(out.read());
}

bool pass_between_streams(bool waits) {
  const Numbers between(100), out(100);
  const Stream writer, reader;
  const Event written;
  launch_on(writer.handle, 100,
            [x = between.data()] ON_DEVICE(int i) { x[i] = static_cast<float>(i); });
  CUDA_CALL(cudaEventRecord(written.handle, writer.handle));
  if (waits) CUDA_CALL(cudaStreamWaitEvent(reader.handle, written.handle));
  launch_on(reader.handle, 100,
            [x = between.data(), y = out.data()] ON_DEVICE(int i) { y[i] = x[i]; });
  CUDA_CALL(cudaStreamSynchronize(reader.handle));
  return is_counted(out.read());
}

bool reuse_pinned(bool waits) {
  const Numbers out(100);
  float* pinned = nullptr;
  CUDA_CALL(cudaMallocHost(reinterpret_cast<void**>(&pinned), 400));
  for (int i = 0; i < 100; ++i) pinned[i] = static_cast<float>(i);
  CUDA_CALL(cudaMemcpyAsync(out.data(), pinned, 400, cudaMemcpyDefault, Numbers::stream()));
  if (waits) CUDA_CALL(cudaStreamSynchronize(Numbers::stream()));
  for (int i = 0; i < 100; ++i) pinned[i] = -1;
  const bool right = is_counted(out.read());
  cudaFreeHost(pinned);
  return right;
}

bool read_result(bool by_copy) {
  const Numbers in = Numbers::counted(10);
  if (by_copy) return is_counted(in.read());
  CUDA_CALL(cudaStreamSynchronize(Numbers::stream()));
  return *static_cast<volatile float*>(in.data()) == 0;
}

bool wait_for_result(bool waits) {
  const Numbers in = Numbers::counted(100);
  float* pinned = nullptr;
  CUDA_CALL(cudaMallocHost(reinterpret_cast<void**>(&pinned), 400));
  for (int i = 0; i < 100; ++i) pinned[i] = -1;
  CUDA_CALL(cudaMemcpyAsync(pinned, in.data(), 400, cudaMemcpyDefault, Numbers::stream()));
  if (waits) CUDA_CALL(cudaStreamSynchronize(Numbers::stream()));
  const bool right = is_counted(std::vector<float>(pinned, pinned + 100));
  cudaFreeHost(pinned);
  return right;
}

bool ends_in_launch() {
  const Numbers out(1);
  try {
    for_each_block(1, [=, y = out.data()] ON_DEVICE(int64_t) { y[1] = 0; });
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

}  // namespace cuda_on_host::faults
