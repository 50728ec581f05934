#include "tests/cuda_on_host/device/fault.h"

#include "tests/cuda_on_host/device/block.h"
#include "tests/cuda_on_host/device/chance.h"

#include <cstdio>
#include <cstdlib>

namespace cuda_on_host {
namespace {
std::string first;
}  // namespace

bool has_fault() { return !first.empty(); }
const std::string& fault_text() { return first; }

void record_fault(const std::string& text) {
  const std::string whole = text + where_in_kernel();
  if (first.empty()) first = whole;
  fmt::print(stderr, "cuda_on_host: {} (CUDA_ON_HOST_SEED={})\n", whole, seed_of_chance());
}

void report_fault(const std::string& text) {
  record_fault(text);
  if (is_in_kernel()) end_launch();
  std::fflush(stderr);
  std::_Exit(70);
}

}  // namespace cuda_on_host
