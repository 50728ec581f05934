// Profiler: measures the time of training steps. Its results are a table and a trace for the
// viewers of Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev).
//
//   Profiler profiler;                     // records from here
//   for (...) { ... }
//   profiler.stop();
//   fmt::print("{}", profiler.table());
//   profiler.write_trace("trace.json");    // or with the group of all ranks
//
// It records all kernel calls, phases of the step (forward, backward, step), ops, waits for the
// loader and collectives on all threads. It also records the bytes of live tensors. One profiler
// records at a time. It belongs to the thread that created it, which the table calls the main
// thread. A kernel call costs two extra loads and branches without an active profiler, and about
// 0.15 us with one. Two events enclose a kernel on a GPU. It has two times: the host's launch time
// and the GPU's run time.
#pragma once

#include "parallel/groups/group.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster {

struct ProfileThread;  // booster/profile/profile_events.h

// Calls of one kernel in one phase, or waits. A kernel that ran on a GPU is a row of that GPU; its
// launch is part of the row "launch kernels" of its thread.
struct ProfileRow {
  std::string name, dtype, phase;
  bool on_main_thread = true;
  Device device = {};  // where it ran; GPU rows are not on the main thread
  int64_t calls = 0;
  double seconds = 0;  // without nested spans
  double gflop = 0;    // 0: not counted
  double gbytes = 0;
};

// Collectives that ran in parallel with the main thread, in seconds.
struct ProfiledCommunication {
  double seconds = 0;          // of messages in flight, including other ranks' delays
  double behind_backward = 0;  // of these, while the main thread computed in backward
};

class Profiler {
 public:
  // Starts recording. Throws if another profiler is recording.
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Stops recording once GPUs have run all recorded work; calling it again has no effect. The
  // functions below need a stopped profiler. Times of a GPU that has failed are missing.
  void stop();
  double seconds() const { return static_cast<double>(end_ - begin_) * 1e-9; }
  const std::vector<ProfileThread>& threads() const { return threads_; }
  // Returns the rows: GPUs first, then the main thread, then by time.
  std::vector<ProfileRow> rows() const;
  // Returns the GPUs that ran kernels, with the time in which each ran at least one.
  std::vector<std::pair<Device, double>> busy_seconds() const;

  ProfiledCommunication communication() const;

  // Returns a table. Columns: time; share of the main thread's time (for a GPU: of the same time);
  // FLOP/s; its share of the rate of a large matrix product there (measured by this call, 0.2 s per
  // dtype); bytes; bytes per second. The last line gives the share of communication that backward
  // hid.
  std::string table() const;
  // Writes one file from rank 0 with one process per rank. Collective over `group`.
  void write_trace(const std::filesystem::path& path, const Group& group = Group()) const;

 private:
  void read_gpu_times();

  int64_t begin_, end_ = 0;
  std::vector<ProfileThread> threads_;
};

}  // namespace booster
