// Tells whether the calling thread's GPU work is recorded for replay instead of run
// (core/tensor/capture). Host work done meanwhile happens once, not at each replay. Code that must
// run at each replay has to check this first.
#pragma once

namespace booster::kernels {

// Returns the GPU whose work the calling thread records, or -1.
int recorded_device();
inline bool is_recording() { return recorded_device() >= 0; }
// Returns the number of recordings that this thread has begun; 0 while it records nothing.
int recording_number();

// Marks the calling thread as recording while it lives.
class RecordingScope {
 public:
  explicit RecordingScope(int device);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

// Throws if this thread is recording: "NAME: cannot be recorded, WHY; ... want INSTEAD".
void refuse_to_record(const char* name, const char* why, const char* instead);
// Does the same for an operation of the CPU.
[[noreturn]] void refuse_to_record_on_cpu(const char* name);

}  // namespace booster::kernels
