#include "booster/training/boosted.h"

#include "booster/training/counted_rows.h"
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/data/joined_shares.h"
#include "core/data/stream_position.h"
#include "core/tensor/tensor.h"
#include "platform/error.h"

#include <algorithm>
#include <vector>

namespace booster {
namespace {

// The number of samples in the loader's current batch as it was made. This rank counts the first
// `counted` of them.
struct BatchInHand {
  int64_t size, counted;
};

BatchInHand batch_in_hand(const DataLoader& loader) {
  const DataLoaderOptions& options = loader.options();
  if (reads_stream(loader)) {
    const int64_t counted = loader.counted();
    return {options.join ? std::max<int64_t>(counted, 1) : options.batch_size, counted};
  }
  const int64_t batch = loader.state().batch - 1, samples = loader.dataset().size();
  const JoinedShares shares{samples, options.world_size, options.batch_size};
  const int64_t counted = shares.count(options.rank, batch);
  if (options.join) return {std::max<int64_t>(counted, 1), counted};
  const int64_t share = (samples + options.world_size - 1) / options.world_size;
  return {std::min(options.batch_size, share - batch * options.batch_size), counted};
}

// Returns true if samples may occur twice in a batch. Trusts custom samplers to avoid repeats.
bool some_count_twice(const DataLoader& loader) {
  const DataLoaderOptions& options = loader.options();
  const bool is_own =
      !reads_stream(loader) && !dynamic_cast<const DistributedSampler*>(options.sampler.get());
  return !is_own && options.world_size > 1 && options.even_shares && !options.drop_last;
}

}  // namespace

int64_t counted_rows(const char* metric, const DataLoader& loader, int64_t n) {
  if (!some_count_twice(loader)) return n;
  const auto [size, counted] = batch_in_hand(loader);
  check(counted == size || n == size,
        "{}: bad images are missing from a batch in which some samples occur twice; got {} of {}, "
        "want even_shares = false for this evaluation",
        metric, n, size);
  return std::min(n, counted);
}

void MeanMetric::add(const Tensor& values) {
  check(values.defined() && values.ndim() == 1,
        "MeanMetric: wrong shape; got {}, want (n): a number for each sample",
        values.defined() ? values.shape().to_string() : "an undefined tensor");
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  const int64_t n = counted_rows("MeanMetric", loader_, values.size(0));
  const Tensor sum = booster::sum(cast(narrow(values, 0, 0, n), DType::f64));
  if (sum_.defined()) sum_.add_(sum);
  else sum_ = sum;
  samples_ += n;
}

void MeanMetric::reset() {
  sum_ = {};
  samples_ = 0;
}

double MeanMetric::value(const Group& group) const {
  std::vector<double> sums = {sum_.defined() ? sum_.item() : 0, static_cast<double>(samples_)};
  if (group.size() > 1) group.all_reduce(sums);
  check(sums[1] > 0, "MeanMetric: no rank has a sample; want add() in a loop over the loader");
  return sums[0] / sums[1];
}

Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k) {
  check(logits.defined() && labels.defined() && logits.ndim() == 2 && labels.ndim() == 1 &&
            logits.size(0) == labels.size(0) && labels.dtype() == DType::i64,
        "top_k_correct: wrong shape or dtype; got {} and {}, want logits (n, classes) and labels "
        "(n) i64",
        logits.defined() ? logits.shape() : Shape{}, labels.defined() ? labels.shape() : Shape{});
  check(k >= 1, "top_k_correct: k is out of range; got {}, want 1 or more", k);
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  const Tensor label = unsqueeze(labels, 1), own = gather(logits, 1, label);
  const Tensor classes = arange(logits.size(1), {DType::i64, logits.device()});
  const auto count = [](const Tensor& which) { return sum(cast(which, DType::f32), {1}); };
  // Counts larger logits, and equal ones that come earlier; a nan counts as larger than any number.
  const Tensor not_larger = count(less_equal(logits, own));
  const Tensor ties =
      count(mul(cast(equal(logits, own), DType::f32), cast(less(classes, label), DType::f32)));
  const Tensor before = ties - not_larger + static_cast<double>(logits.size(1));
  const Tensor is_number = cast(equal(own, own), DType::f32);
  return mul(cast(less(before, static_cast<double>(k)), DType::f32), squeeze(is_number, 1));
}

}  // namespace booster
