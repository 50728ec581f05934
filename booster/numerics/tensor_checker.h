// The tensor checker: one line of statistics per op result that the mode selects, in the format of
// paddle.amp.debugging:
//
//   [PRECISION] [ERROR] in [device=cpu, op=log, tensor=head, dtype=fp32], numel=2, num_nan=0,
//   num_inf=1, num_zero=1, max=0.000000e+00, min=-inf, mean=-inf          (one line)
//
// [ERROR], num_nan and num_inf appear only if an element is not finite. `tensor` is the module that
// made the result, or PARAMETER@GRAD. `op` is the name on the tape, with _grad for a gradient. Each
// step begins with a line "[STEP] n". Lines go to a file, for comparison of two runs
// (dump_compare.h), or to standard error. For one thread.
#pragma once

#include "booster/numerics/diagnose.h"
#include "core/tensor/checks/statistics.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace booster::numerics {

// Returns "[PRECISION] in [device=cpu, ..."
std::string precision_line(const std::string& op, const std::string& tensor, const Tensor& x,
                           const Statistics& statistics);

class TensorChecker {
 public:
  // Makes the checker. Throws if an op is on both lists or the file cannot be made.
  explicit TensorChecker(CheckerOptions options);
  void begin_step(int64_t step);
  // Examines a result (except integers). In mode abort, may throw an Error.
  void see(const std::string& op, const std::string& tensor, const Tensor& x);

  bool is_on() const { return options_.mode != CheckMode::none; }
  int64_t lines() const { return lines_; }
  int64_t bad_lines() const { return bad_lines_; }  // with [ERROR]
  // Returns the names on the lists that match no op seen.
  std::vector<std::string> names_never_seen() const;

 private:
  bool wants(const std::string& op);
  void write(const std::string& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  CheckerOptions options_;
  std::set<std::string> checked_, skipped_, seen_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t step_ = 0, announced_ = 0, lines_ = 0, bad_lines_ = 0;
};

}  // namespace booster::numerics
