#include "mixed_precision/ops/paddle_ops.h"

#include <algorithm>

namespace booster {
namespace {

using OpNames = std::vector<std::string>;

void append_words(OpNames& names, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool contains_name(const OpNames& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name, std::less<>());
}

struct LackedKernels {
  OpNames gpu_lacks_both, gpu_lacks_bf16;
};

const LackedKernels& lacked_kernels() {
  static const LackedKernels lacked = [] {
    LackedKernels made;
#define KERNELS(list, names) append_words(made.list, names);
#include "mixed_precision/ops/tables/paddle_gpu_kernels.def"
    std::ranges::sort(made.gpu_lacks_both);
    std::ranges::sort(made.gpu_lacks_bf16);
    return made;
  }();
  return lacked;
}

}  // namespace

const std::vector<std::string>& paddle_op_names() {
  static const OpNames all = [] {
    OpNames made;
// The other columns are for `booster explain` (tools/explain).
#define RESULTS(match, leading, integers, returns, names) append_words(made, names);
#include "mixed_precision/ops/tables/paddle_results.def"
    std::ranges::sort(made);
    const auto repeated = std::ranges::unique(made);
    made.erase(repeated.begin(), repeated.end());
    return made;
  }();
  return all;
}

bool is_paddle_op(std::string_view name) { return contains_name(paddle_op_names(), name); }

bool paddle_lacks_gpu_kernel(std::string_view name, DType lower) {
  const LackedKernels& lacked = lacked_kernels();
  return contains_name(lacked.gpu_lacks_both, name) ||
         (lower == DType::bf16 && contains_name(lacked.gpu_lacks_bf16, name));
}

}  // namespace booster
