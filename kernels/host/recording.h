// Whether the calling thread's work for a GPU is recorded, to be replayed, instead of being done
// (core/tensor/capture). What the host would do beside it is done once and not again by a
// replay, so whoever would do such a thing asks here first.
#pragma once

namespace booster::kernels {

// The GPU whose work the calling thread records, or -1.
int recorded_device();
inline bool is_recording() { return recorded_device() >= 0; }
// Counts the recordings that this thread has begun; 0 while it records nothing.
int recording_number();

// Says it for the calling thread, as long as it lives.
class RecordingScope {
 public:
  explicit RecordingScope(int device);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

// Error if this thread records: "NAME: cannot be recorded, WHY; ... want INSTEAD".
void refuse_to_record(const char* name, const char* why, const char* instead);
// The same of an operation of the CPU.
[[noreturn]] void refuse_to_record_on_cpu(const char* name);

}  // namespace booster::kernels
