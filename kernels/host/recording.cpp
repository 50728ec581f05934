#include "kernels/host/recording.h"

#include "platform/error.h"

namespace booster::kernels {
namespace {

thread_local int device_recorded = -1;
thread_local int begun = 0;

}  // namespace

int recorded_device() { return device_recorded; }
int recording_number() { return is_recording() ? begun : 0; }

RecordingScope::RecordingScope(int device) {
  device_recorded = device;
  ++begun;
}
RecordingScope::~RecordingScope() { device_recorded = -1; }

void refuse_to_record(const char* name, const char* why, const char* instead) {
  if (!is_recording()) return;
  fail("{}: cannot be recorded, {}; got it within captured work on cuda:{}, want {}", name, why,
       device_recorded, instead);
}

void refuse_to_record_on_cpu(const char* name) {
  refuse_to_record(name, "because a replay runs nothing on the CPU",
                   "its tensors on that GPU, or the call before the capture");
  __builtin_unreachable();
}

}  // namespace booster::kernels
