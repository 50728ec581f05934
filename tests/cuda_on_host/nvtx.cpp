// NVTX for tests: the ranges of the thread that asks, in the order of their ends, each with those
// that it lay in: "forward/linear".
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

namespace {

struct Ranges {
  std::vector<std::string> open;
  std::string ended;  // a line each
};
thread_local Ranges ranges;

}  // namespace

int nvtxRangePushA(const char* message) {
  ranges.open.push_back(ranges.open.empty() ? message : ranges.open.back() + "/" + message);
  return static_cast<int>(ranges.open.size()) - 1;
}

int nvtxRangePop() {
  if (ranges.open.empty()) {
    ranges.ended += "an end without a begin\n";
    return -2;
  }
  ranges.ended += ranges.open.back() + "\n";
  ranges.open.pop_back();
  return static_cast<int>(ranges.open.size());
}

// Tests look it up in the module.
extern "C" [[gnu::visibility("default")]] const char* cuda_on_host_ranges() {
  return ranges.ended.c_str();
}
