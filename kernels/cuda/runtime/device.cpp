// The runtime is linked statically and looks for the driver when first called. A program with this
// module therefore starts and trains on the CPU if there is no driver.
#include "kernels/cuda/runtime/device.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/graph.h"
#include "platform/environment.h"
#include "platform/error.h"

#include <map>
#include <mutex>

namespace booster::kernels::cuda {
namespace {

thread_local int device_in_use = 0;
thread_local cudaStream_t stream_in_use = nullptr;  // the stream of a StreamScope

struct Devices {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

Devices count_devices() {
  Devices devices;
  devices.status = cudaGetDeviceCount(&devices.count);
  if (devices.status != cudaSuccess) {
    cudaGetLastError();  // a later call would report it again
    devices.count = 0;
  }
  return devices;
}

// Counts devices only once, because counting calls the driver, and use() precedes every kernel.
const Devices& devices() {
  static const Devices counted = count_devices();
  return counted;
}

// Throws for an unsupported GPU. The module has code for the capabilities in gpu_arch, and
// intermediate code for later ones.
void check_capability(int device) {
  const CudaDevice about = describe_device(device);
  check(10 * about.major + about.minor >= BOOSTER_LEAST_GPU_ARCH,
        "device: cuda:{} is too old for this build; got {} of compute capability {}.{}, want "
        "{}.{} or later, or a build with -Dgpu_arch={}{}",
        device, about.name, about.major, about.minor, BOOSTER_LEAST_GPU_ARCH / 10,
        BOOSTER_LEAST_GPU_ARCH % 10, about.major, about.minor);
}

void check_usable(int device) {
  const auto& [count, status] = devices();
  if (count == 0)
    fail("device: no usable CUDA device ({}); got cuda:{}, want cpu",
         cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status), device);
  check(device >= 0 && device < count,
        "device: does not exist; got cuda:{}, want cuda:0 to cuda:{}", device, count - 1);
  check(device < most_devices, "device: index too large; got cuda:{}, want less than {}", device,
        most_devices);
  static std::once_flag checked[most_devices];
  std::call_once(checked[device], [=] { check_capability(device); });
}

cudaStream_t create_stream() {
  cudaStream_t stream = nullptr;
  CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

bool is_debugging() { return environment::flag("BOOSTER_CUDA_DEBUG"); }

}  // namespace

int device_count() { return devices().count; }

CudaDevice describe_device(int device) {
  cudaDeviceProp properties = {};
  CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  return {properties.name, properties.major, properties.minor, properties.totalGlobalMem};
}

// Selects the device. Queries first, which is fast, because another library may have changed the
// thread's device.
void use(int device) {
  check_usable(device);
  int chosen = -1;
  CUDA_CALL(cudaGetDevice(&chosen));
  if (chosen != device) CUDA_CALL(cudaSetDevice(device));
  device_in_use = device;
}

int current_device() { return device_in_use; }

namespace {
cudaStream_t stream_for_all() {
  static std::once_flag created[most_devices];
  static cudaStream_t streams[most_devices];  // never destroyed: the runtime may end first
  const int device = device_in_use;
  std::call_once(created[device], [=] { streams[device] = create_stream(); });
  return streams[device];
}
}  // namespace

cudaStream_t current_stream() {
  if (const Graph* graph = graph_in_progress()) check_recorded_device(*graph, device_in_use);
  return stream_in_use ? stream_in_use : stream_for_all();
}
cudaStream_t running_stream() {
  return graph_in_progress() || !stream_in_use ? stream_for_all() : stream_in_use;
}

StreamScope::StreamScope(cudaStream_t stream) : before_(stream_in_use) { stream_in_use = stream; }
StreamScope::~StreamScope() { stream_in_use = before_; }

// Runs `body` on a stream that lives as long as the thread.
void run_beside(int device, const std::function<void()>& body) {
  struct Own {
    std::map<int, cudaStream_t> streams;
    ~Own() {
      for (const auto& [index, stream] : streams) cudaStreamDestroy(stream);
    }
  };
  refuse_in_recording("work outside of the device's stream");
  thread_local Own own;
  use(device);
  cudaStream_t& stream = own.streams[device];
  if (!stream) stream = create_stream();
  const StreamScope scope(stream);
  body();
}

void synchronize(int device) {
  use(device);
  CUDA_CALL(cudaStreamSynchronize(current_stream()));
}
void synchronize_all(int device) {
  use(device);
  const auto none_recorded = hold_off_recordings(device);
  CUDA_CALL(cudaDeviceSynchronize());
}

void wait_if_debugging() {
  static const bool debugging = is_debugging();
  if (debugging && !graph_in_progress()) CUDA_CALL(cudaStreamSynchronize(current_stream()));
}

}  // namespace booster::kernels::cuda
