#include "core/data/course.h"

#include <algorithm>
#include <utility>

namespace booster {
namespace {

constexpr int repeat_bits = 40;  // of a random stream's number: the sample's index, before repeats

class IndexCourse : public Course {
 public:
  IndexCourse(const Dataset& dataset, const DataLoaderOptions& options, const LoaderState& from)
      : options_(options),
        joined_(joined_shares(dataset, options)),
        order_(options.sampler->indices(from.epoch)),
        next_(from.batch),
        end_(batch_count(dataset, options)) {}

  std::optional<BatchPlan> next() override {
    if (next_ >= end_) return std::nullopt;
    const auto n = static_cast<int64_t>(order_.size());
    const int64_t begin = next_ * options_.batch_size;
    int64_t end = std::min(begin + options_.batch_size, n);
    if (options_.join)  // a padding sample replaces a missing one
      end = begin + std::max<int64_t>(joined_.count(options_.rank, next_), 1);
    ++next_;
    BatchPlan plan;
    plan.numbers.assign(order_.begin() + begin, order_.begin() + end);
    for (int64_t i = 0; i < plan.size(); ++i) {
      const auto repeat = static_cast<uint64_t>(options_.sampler->repeat(begin + i));
      plan.randoms.push_back(static_cast<uint64_t>(plan.numbers[i]) | repeat << repeat_bits);
    }
    return plan;
  }

 private:
  const DataLoaderOptions options_;
  const JoinedShares joined_;
  const std::vector<int64_t> order_;
  int64_t next_;
  const int64_t end_;
};

}  // namespace

JoinedShares joined_shares(const Dataset& dataset, const DataLoaderOptions& options) {
  return {.samples = dataset.size(),
          .world_size = options.world_size,
          .batch_size = options.batch_size,
          .drop_last = options.drop_last};
}

int64_t batch_count(const Dataset& dataset, const DataLoaderOptions& options) {
  if (options.join) return joined_shares(dataset, options).batches();
  const int64_t n = options.sampler->size();
  return (n + (options.drop_last ? 0 : options.batch_size - 1)) / options.batch_size;
}

std::unique_ptr<Course> index_course(const Dataset& dataset, const DataLoaderOptions& options,
                                     const LoaderState& from) {
  return std::make_unique<IndexCourse>(dataset, options, from);
}

}  // namespace booster
