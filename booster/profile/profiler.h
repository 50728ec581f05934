// Profiler: where the time of some training steps goes, as a table and as a trace for the viewers
// of Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev).
//
//   Profiler profiler;                     // records from here
//   for (...) { ... }
//   profiler.stop();
//   fmt::print("{}", profiler.table());
//   profiler.write_trace("trace.json");    // or with the group of all ranks
//
// It records every kernel call, phase of the step (forward, backward, step), op, wait for the
// loader and collective on all threads, and the bytes of live tensors. One profiler records at a
// time. It belongs to the thread that created it, which the table calls the main thread. Without an
// active profiler a kernel call costs two extra loads and branches; with one, about 0.15 us. On a
// GPU a kernel has two events around it and two times: the host's, to launch it, and the GPU's.
#pragma once

#include "parallel/groups/group.h"
#include "platform/trace.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster {

struct ProfileEvent {
  kernels::Span span;
  int64_t live_bytes;           // of tensors, at its end
  int64_t own_nanoseconds = 0;  // without the spans inside it
  const char* phase = "";       // that contains it, on its thread
  // When a GPU ran it, in nanoseconds as those of the span; else the device is the CPU.
  Device device = {};
  int64_t gpu_begin = 0, gpu_end = 0;
};

// What one thread did, by begin; an outer span comes before those inside it.
struct ProfileThread {
  std::string name;  // "main", "loader", "collectives"
  std::vector<ProfileEvent> events;
};

// Calls of one kernel in one phase, or waits. A kernel that ran on a GPU is a row there, and its
// launch a part of the row "launch kernels" of its thread.
struct ProfileRow {
  std::string name, dtype, phase;
  bool on_main_thread = true;
  Device device = {};  // where it ran; on a GPU it is not on the main thread
  int64_t calls = 0;
  double seconds = 0;  // without nested spans
  double gflop = 0;    // 0: not counted
  double gbytes = 0;
};

// Collectives that ran beside the main thread, in seconds.
struct ProfiledCommunication {
  double seconds = 0;          // of messages under way, other ranks' delays included
  double behind_backward = 0;  // of these, while the main thread computed in a backward pass
};

class Profiler {
 public:
  // Starts recording. Error if another profiler is recording.
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Stops recording, once GPUs have run what was recorded; calling it again has no effect. The
  // functions below need a stopped profiler. Where a GPU works no more its times are missing.
  void stop();
  double seconds() const { return static_cast<double>(end_ - begin_) * 1e-9; }
  const std::vector<ProfileThread>& threads() const { return threads_; }
  // GPUs first, then the main thread, then by time.
  std::vector<ProfileRow> rows() const;
  // The GPUs that ran kernels, and how long each ran at least one.
  std::vector<std::pair<Device, double>> busy_seconds() const;

  ProfiledCommunication communication() const;

  // Rows with time, share of the main thread's time (on a GPU: of the same time), FLOP/s, its share
  // of the rate that a large matrix product reaches there (measured by this call, 0.2 s per dtype),
  // bytes and bytes per second. A last line tells what share of communication was behind backward.
  std::string table() const;
  // All ranks of the group must call it; rank 0 writes one file with one process per rank.
  void write_trace(const std::filesystem::path& path, const Group& group = Group()) const;

 private:
  void read_gpu_times();

  int64_t begin_, end_ = 0;
  std::vector<ProfileThread> threads_;
};

}  // namespace booster
