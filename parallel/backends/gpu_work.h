// An operation issued to GPUs; complete when its streams have passed it. Thread-safe.
#pragma once

#include "kernels/device/event.h"
#include "parallel/operations/completion.h"
#include "parallel/operations/operation.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace booster {

class GpuWork final : public Completion {
 public:
  // It begins when `begin` is past and is complete when all of `ends` are. It keeps the memory that
  // it uses until then, or until a stream has been ordered after it, so that the memory cannot be
  // reused.
  GpuWork(std::shared_ptr<kernels::Event> begin, std::vector<std::shared_ptr<kernels::Event>> ends,
          std::vector<Buffer> used)
      : begin_(std::move(begin)), ends_(std::move(ends)), used_(std::move(used)) {}

  void order(kernels::Stream stream) override;
  void synchronize() override;
  bool is_done() override;
  bool has_begun() const { return begin_->is_past(); }
  // Marks it as given up: from now on waits throw `reason`.
  void fail(const std::string& reason);

 private:
  void throw_failure() const;

  const std::shared_ptr<kernels::Event> begin_;
  const std::vector<std::shared_ptr<kernels::Event>> ends_;
  std::mutex mutex_;
  std::vector<Buffer> used_;
  std::string failure_;
};

}  // namespace booster
