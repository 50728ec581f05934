// Times of profiled steps, from the trace.json that the profiler wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace booster::report {

struct TraceRow {
  std::string name, dtype;
  int64_t calls = 0;
  double milliseconds = 0;
};

struct TraceSummary {
  std::vector<TraceRow> phases;   // forward, backward, ... in the order of the step
  std::vector<TraceRow> kernels;  // by time, the longest first
  int64_t left_out = 0;           // events that could not be read
};

// Summarises rank 0's main thread; kernels on its GPU count with the GPU's time. Reads line by
// line, so a trace may be larger than memory. Returns an empty summary for a file that is no trace.
TraceSummary summarize_trace(const std::filesystem::path& path);

}  // namespace booster::report
