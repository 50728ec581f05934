// NVTX for tests: the calling thread's ranges in the order of their ends, each with its enclosing
// ranges: "forward/linear".
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

namespace {

struct Ranges {
  std::vector<std::string> open;
  std::string ended;  // one per line
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

// Tests look up this symbol in the module.
extern "C" [[gnu::visibility("default")]] const char* cuda_on_host_ranges() {
  return ranges.ended.c_str();
}
