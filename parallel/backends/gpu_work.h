// An operation that was given to GPUs: it is complete when its streams have come so far.
// Thread-safe.
#pragma once

#include "kernels/device/moment.h"
#include "parallel/operations/buffer.h"
#include "parallel/operations/work.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace booster {

class GpuWork final : public Completion {
 public:
  // It begins when `begin` is past and is complete when all of `ends` are. Until then, or until
  // somebody's stream has been told to wait, it keeps the memory that it uses: nobody else shall
  // get that.
  GpuWork(std::shared_ptr<kernels::Moment> begin,
          std::vector<std::shared_ptr<kernels::Moment>> ends, std::vector<Buffer> used)
      : begin_(std::move(begin)), ends_(std::move(ends)), used_(std::move(used)) {}

  void order(kernels::Stream stream) override;
  void synchronize() override;
  bool is_done() override;
  bool has_begun() const { return begin_->is_past(); }
  // It was given up: waits throw this from now on.
  void fail(const std::string& reason);

 private:
  void throw_failure() const;

  const std::shared_ptr<kernels::Moment> begin_;
  const std::vector<std::shared_ptr<kernels::Moment>> ends_;
  std::mutex mutex_;
  std::vector<Buffer> used_;
  std::string failure_;
};

}  // namespace booster
