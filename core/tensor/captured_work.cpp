#include "core/tensor/captured_work.h"

#include "core/tensor/later_checks.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random.h"
#include "core/tensor/work_recorder.h"
#include "kernels/cuda/runtime/loader.h"
#include "kernels/system/error.h"
#include "kernels/system/recording.h"

#include <thread>
#include <utility>

namespace booster {

// The blocks outlive all that uses them.
struct CapturedWork::Body {
  explicit Body(Device on)
      : device(on), blocks(on), random(default_generator(), on) {}

  void record(const std::function<std::vector<Tensor>()>& work);
  void replay();

  const std::thread::id thread = std::this_thread::get_id();
  const Device device;
  PrivateBlocks blocks;
  RandomRecording random;
  std::unique_ptr<kernels::Recording> recording;
  RecordedMemory memory;
  std::vector<RecordedCheck> checks;
  std::vector<Tensor> results;
};

void CapturedWork::Body::record(const std::function<std::vector<Tensor>()>& work) {
  recording = kernels::cuda_module_for(device).record(device.index);
  {
    const kernels::RecordingScope scope(device.index);
    const PrivateBlocks::Scope allocations(blocks);
    WorkRecorder recorder;
    results = work();
    memory = recorder.take_memory();
    checks = recorder.take_checks();
  }
  recording->end();
  random.end();
  for (const Tensor& result : results)
    check(result.defined() && result.device() == device,
          "capture: a result does not lie on the device; got {}, want cuda:{}",
          !result.defined() ? "an undefined tensor"
          : result.device() == Device{} ? "one on the cpu" : "one on another GPU",
          static_cast<int>(device.index));
  for (RecordedCheck& each : checks) each.worst.fill_(-1);
}

void CapturedWork::Body::replay() {
  check(std::this_thread::get_id() == thread,
        "replay: captured work belongs to the thread that captured it; got another, want that one");
  kernels::refuse_to_record("replay", "because captured work is whole", "a plain call of the work");
  random.replay();
  recording->replay();
  for (const auto& storage : memory.changed) ++storage->version;
  for (const RecordedCheck& each : checks)
    check_again_later(each.worst, [each](int64_t found) {
      Tensor worst = each.worst;
      worst.fill_(-1);
      each.raise(found);
    });
}

void CapturedWork::replay() { body_->replay(); }
const std::vector<Tensor>& CapturedWork::results() const { return body_->results; }

CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work) {
  check(device.type == DeviceType::cuda,
        "capture: only work of a GPU is captured; got cpu, want a device such as cuda:0");
  kernels::refuse_to_record("capture", "because work is recorded already", "one after the other");
  CapturedWork captured;
  captured.body_ = std::make_shared<CapturedWork::Body>(device);
  captured.body_->record(work);
  return captured;
}

}  // namespace booster
