#include "booster/numerics/tensor_checker.h"

#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace booster::numerics {

namespace {

// Returns Paddle's name of the dtype.
const char* precision_name(DType dtype) {
  switch (dtype) {
    case DType::f16: return "fp16";
    case DType::bf16: return "bf16";
    case DType::f32: return "fp32";
    case DType::f64: return "fp64";
    default: return name_of(dtype);
  }
}

}  // namespace

const std::vector<std::string>& check_mode_names() {
  static const std::vector<std::string> names = {"none", "abort", "report", "range", "all"};
  return names;
}

CheckMode check_mode(const std::string& name) {
  const auto& names = check_mode_names();
  const auto found = std::find(names.begin(), names.end(), name);
  check(found != names.end(), "tensor checker: unknown mode; got {}{}", name,
        legal_names(name, names));
  return static_cast<CheckMode>(found - names.begin());
}

std::string precision_line(const std::string& op, const std::string& tensor, const Tensor& x,
                           const Statistics& s) {
  std::string line = s.finite() ? "[PRECISION] " : "[PRECISION] [ERROR] ";
  line += fmt::format("in [device={}, op={}, tensor={}, dtype={}], numel={}",
                      x.device().type == DeviceType::cpu ? "cpu" : "gpu", op, tensor,
                      precision_name(x.dtype()), s.numel);
  if (!s.finite()) line += fmt::format(", num_nan={}, num_inf={}", s.nans, s.infs);
  return line + fmt::format(", num_zero={}, max={:.6e}, min={:.6e}, mean={:.6e}", s.zeros, s.max,
                            s.min, s.mean);
}

TensorChecker::TensorChecker(CheckerOptions options)
    : options_(std::move(options)),
      checked_(options_.checked_ops.begin(), options_.checked_ops.end()),
      skipped_(options_.skipped_ops.begin(), options_.skipped_ops.end()) {
  for (const std::string& op : checked_)
    check(!skipped_.contains(op), "tensor checker: op {} is on both lists; want it on one of them",
          op);
  if (!is_on() || options_.file.empty()) return;
  file_.reset(std::fopen(options_.file.c_str(), "w"));
  if (!file_)
    fail_run("tensor checker: cannot write {}: {}", options_.file.string(), std::strerror(errno));
}

void TensorChecker::begin_step(int64_t step) { step_ = step; }

bool TensorChecker::wants(const std::string& op) {
  const bool on_list = checked_.contains(op), off_list = skipped_.contains(op);
  if (on_list || off_list) seen_.insert(op);
  return !off_list && (checked_.empty() || on_list);
}

void TensorChecker::see(const std::string& op, const std::string& tensor, const Tensor& x) {
  if (!is_on() || !is_floating(x.dtype()) || x.numel() == 0 || !wants(op)) return;
  const bool only_bad = options_.mode == CheckMode::abort || options_.mode == CheckMode::report;
  if (only_bad && is_finite(x)) return;
  const Statistics s = statistics_of(x);
  const bool beyond = x.dtype() == DType::f32 && s.magnitude > f16_largest;
  if (options_.mode == CheckMode::range && s.finite() && !beyond) return;
  bad_lines_ += !s.finite();
  const std::string line = precision_line(op, tensor, x, s);
  write(line);
  if (options_.mode == CheckMode::abort)
    fail_run("tensor checker: step {}: {} gave {} nan and {} inf among {} values; {}", step_, op,
             s.nans, s.infs, s.numel, line);
}

void TensorChecker::write(const std::string& line) {
  std::FILE* out = file_ ? file_.get() : stderr;
  if (announced_ != step_) fmt::print(out, "[STEP] {}\n", step_);
  announced_ = step_;
  fmt::print(out, "{}\n", line);
  std::fflush(out);
  ++lines_;
}

std::vector<std::string> TensorChecker::names_never_seen() const {
  std::vector<std::string> never;
  for (const auto* names : {&checked_, &skipped_})
    for (const std::string& name : *names)
      if (!seen_.contains(name)) never.push_back(name);
  return never;
}

}  // namespace booster::numerics
