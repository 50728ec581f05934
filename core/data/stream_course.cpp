#include "core/data/course.h"
#include "core/data/stream_share.h"
#include "platform/error.h"

#include <utility>

namespace booster {
namespace {

class StreamCourse : public Course {
 public:
  StreamCourse(const StreamDataset& stream, const DataLoaderOptions& options,
               const LoaderState& from)
      : stream_(stream), options_(options), epoch_(from.epoch) {
    if (from.stream.empty()) {
      start_over();
      return;
    }
    StreamPosition at = stream_position(from.stream, stream.shards(), options);
    repeats_ = at.repeats;
    share_ = std::make_unique<StreamShare>(stream, options, epoch_, std::move(at));
  }

  std::optional<BatchPlan> next() override {
    BatchPlan plan;
    if (!repeats_) add(share_->batch(), plan);
    plan.counted = plan.size();
    if (options_.drop_last || !ends_together(options_)) {
      if (plan.size() < (options_.drop_last ? options_.batch_size : 1)) return std::nullopt;
    } else {
      fill_up(plan, options_.join ? 1 : options_.batch_size);
    }
    StreamPosition after = share_->position();
    after.repeats = repeats_;
    plan.after = std::make_shared<const StreamPosition>(std::move(after));
    return plan;
  }

 private:
  void start_over() { share_ = std::make_unique<StreamShare>(stream_, options_, epoch_); }

  // Adds samples of the repeated share until the batch has `size` of them.
  void fill_up(BatchPlan& plan, int64_t size) {
    bool is_empty = false;  // one whole repeat gave nothing
    while (plan.size() < size) {
      if (repeats_) {
        const int64_t before = plan.size();
        add(share_->batch(), plan, size);
        const bool was_empty = std::exchange(is_empty, plan.size() == before);
        if (!is_empty) continue;
        if (was_empty)
          fail_data(
              "DataLoader: rank {} has no sample of the stream to repeat while other ranks train; "
              "got {} shards for {} ranks, want more samples, or even_shares = false",
              options_.rank, stream_.shards(), options_.world_size);
      }
      repeats_ = true;
      start_over();
    }
  }

  void add(std::vector<StreamRecord> records, BatchPlan& plan) {
    add(std::move(records), plan, options_.batch_size);
  }
  void add(std::vector<StreamRecord> records, BatchPlan& plan, int64_t size) {
    for (StreamRecord& record : records) {
      if (plan.size() == size) return;
      plan.numbers.push_back(record.number);
      plan.randoms.push_back(static_cast<uint64_t>(record.number));
      plan.makes.push_back(std::move(record.make));
    }
  }

  const StreamDataset& stream_;
  const DataLoaderOptions options_;
  const uint64_t epoch_;
  std::unique_ptr<StreamShare> share_;
  bool repeats_ = false;  // the rank's share is over, and `share_` is a repeat
};

}  // namespace

std::unique_ptr<Course> stream_course(const StreamDataset& stream, const DataLoaderOptions& options,
                                      const LoaderState& from) {
  return std::make_unique<StreamCourse>(stream, options, from);
}

}  // namespace booster
