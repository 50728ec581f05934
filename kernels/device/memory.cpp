#include "kernels/device/memory.h"

#include "kernels/device/cuda_module.h"
#include "kernels/host/host_memory.h"
#include "kernels/host/recording.h"
#include "platform/trace.h"

#include <cstring>

namespace booster::kernels {

namespace {
bool is_cpu(Device device) { return device.type == DeviceType::cpu; }
}  // namespace

void* device_allocate(Device device, size_t bytes) {
  if (is_cpu(device)) return allocate_host(bytes);
  return cuda_module_for(device).allocate(device.index, bytes);
}

void device_free(Device device, void* data) {
  if (is_cpu(device)) return free_host(data);
  cuda_module_for(device).free(device.index, data);
}

void device_copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) return;
  if (is_cpu(to_device) && is_cpu(from_device)) {
    std::memcpy(to, from, bytes);
    return;
  }
  if (is_cpu(to_device))
    refuse_to_record("reading values from a GPU (item, to_vector, to)",
                     "because they are known only after a replay",
                     "the tensor as a result, read after replay()");
  refuse_to_record("a copy to a GPU", "because a replay would not copy anew",
                   "a tensor that exists before the capture, and copy_ before each replay");
  const Device gpu = is_cpu(to_device) ? from_device : to_device;
  const TraceScope span(is_cpu(to_device) ? "copy from GPU" : "copy to GPU", SpanKind::transfer,
                        static_cast<int64_t>(bytes));
  const CudaModule& cuda = cuda_module_for(gpu);
  // The copy is ordered only after the work of one GPU.
  if (!is_cpu(from_device) && from_device != gpu) cuda.synchronize(from_device.index);
  cuda.use(gpu.index);
  cuda.copy(to, from, bytes);
}

void device_synchronize(Device device) {
  if (is_cpu(device)) return;
  refuse_to_record("waiting for a GPU", "because the work does not run yet",
                   "to wait after replay()");
  const TraceScope span("wait for GPU", SpanKind::transfer);
  cuda_module_for(device).synchronize(device.index);
}

int cuda_device_count() { return cuda_module() ? cuda_module()->device_count() : 0; }

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  for (int i = 0; i < cuda_device_count(); ++i)
    devices.push_back(cuda_module()->describe_device(i));
  return devices;
}

}  // namespace booster::kernels
