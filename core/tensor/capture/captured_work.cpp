#include "core/tensor/capture/captured_work.h"

#include "core/tensor/later_checks.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random/random.h"
#include "core/tensor/random/random_recording.h"
#include "core/tensor/work_recorder.h"
#include "kernels/device/cuda_module.h"
#include "kernels/host/recording.h"
#include "platform/error.h"

#include <thread>
#include <utility>

namespace booster {

namespace {

using RecordedChecks = std::vector<RecordedCheck>;

void reset(const RecordedChecks& checks) {
  for (const RecordedCheck& each : checks) Tensor(each.worst).fill_(-1);
}

// Resets all checks and throws the first one's error for all (see run_later_checks). A later kernel
// may have overwritten the value that a replay found.
void raise_for_replay(const RecordedChecks& all, const RecordedCheck& check, int64_t found) {
  reset(all);
  try {
    check.raise(found);
  } catch (const Error& error) {
    fail("{}; found in a replay of captured work; the number is the present one", error.what());
  }
}

}  // namespace

// The blocks outlive all their users.
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
  std::shared_ptr<const RecordedChecks> checks;
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
    checks = std::make_shared<const RecordedChecks>(recorder.take_checks());
  }
  recording->end();
  random.end();
  for (const Tensor& result : results)
    check(result.defined() && result.device() == device,
          "capture: a result is on another device; got {}, want cuda:{}",
          !result.defined()             ? "an undefined tensor"
          : result.device() == Device{} ? "one on the cpu"
                                        : "one on another GPU",
          static_cast<int>(device.index));
  reset(*checks);
}

void CapturedWork::Body::replay() {
  check(std::this_thread::get_id() == thread,
        "replay: captured work belongs to the thread that captured it; got a call from another "
        "thread");
  kernels::refuse_to_record("replay", "because one capture cannot contain another",
                            "a plain call of the work");
  random.replay();
  recording->replay();
  for (const auto& storage : memory.changed) ++storage->version;
  for (const RecordedCheck& each : *checks)
    check_again_later(each.worst, [all = checks, &each](int64_t found) {
      raise_for_replay(*all, each, found);
    });
}

CapturedWork::Body& CapturedWork::body() const {
  check(body_ != nullptr, "CapturedWork: an empty handle; want a result of capture(device, work)");
  return *body_;
}
void CapturedWork::replay() { body().replay(); }
const std::vector<Tensor>& CapturedWork::results() const { return body().results; }

CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work) {
  check(device.type == DeviceType::cuda,
        "capture: only work of a GPU can be captured; got cpu, want a device such as cuda:0");
  kernels::refuse_to_record("capture", "because work is already being recorded",
                            "one after the other");
  CapturedWork captured;
  captured.body_ = std::make_shared<CapturedWork::Body>(device);
  captured.body_->record(work);
  return captured;
}

}  // namespace booster
