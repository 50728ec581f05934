#include "plugins/sequence/ring_attention.h"

#include "core/autograd/functions.h"
#include "core/tensor/tensor.h"
#include "platform/error.h"

#include <numbers>
#include <utility>

namespace booster {

namespace {

// Keys and values, or their gradients, in one tensor: (2, batch, heads, tokens, size).
Tensor pair_of(const Tensor& k, const Tensor& v, DType dtype) {
  Shape shape = k.shape();
  shape.insert(0, 2);
  const Tensor pair = empty(shape, {dtype, k.device()});
  untracked::select(pair, 0, 0).copy_(k);
  untracked::select(pair, 0, 1).copy_(v);
  return pair;
}

// A pair that circulates from rank to rank.
class Travelling {
 public:
  Travelling(Tensor first, const Group& ranks)
      : now_(std::move(first)), next_(empty_like(now_)), ranks_(ranks) {}
  Tensor pair() const { return now_; }
  Tensor first() const { return untracked::select(now_, 0, 0); }
  Tensor second() const { return untracked::select(now_, 0, 1); }
  // Starts sending to the next rank; the pair being sent may still be read.
  void leave() {
    const int size = ranks_.size(), rank = ranks_.rank();
    work_ = ranks_.send_receive_async(now_, (rank + 1) % size, next_, (rank + size - 1) % size);
  }
  void arrive() {
    work_.wait();
    std::swap(now_, next_);
  }

 private:
  Tensor now_, next_;
  const Group& ranks_;
  Work work_;
};

// The queries' results so far, in the dtype of the statistics.
class Joined {
 public:
  void add(const AttentionResult& result) {
    const DType dtype = result.log_sum.dtype();
    const Tensor out = untracked::cast(result.out, dtype);
    if (!out_.defined()) {
      out_ = out;
      log_sum_ = result.log_sum;
      return;
    }
    const Tensor both = sum_of(log_sum_, result.log_sum);
    out_ = out_ * share(log_sum_, both) + out * share(result.log_sum, both);
    log_sum_ = both;
  }
  AttentionResult as(const Tensor& q) const {
    Tensor out = heads_like(q);
    out.copy_(out_);
    return {out, log_sum_};
  }

 private:
  // Return the parts of log_sums, in units of log 2: the largest score, and the excess of the log
  // of the sum over it.
  static Tensor largest(const Tensor& log_sum) { return select(log_sum, -1, 0); }
  static Tensor more(const Tensor& log_sum) { return select(log_sum, -1, 1); }
  static Tensor power_of_2(const Tensor& x) { return exp(x * std::numbers::ln2); }

  static Tensor sum_of(const Tensor& a, const Tensor& b) {
    const Tensor top = maximum(largest(a), largest(b));
    const auto part = [&](const Tensor& x) { return power_of_2(largest(x) - top + more(x)); };
    return stack({top, log(part(a) + part(b)) * std::numbers::log2e}, -1);
  }
  // Returns the part's share of both: (batch, heads, queries, 1).
  static Tensor share(const Tensor& part, const Tensor& both) {
    return unsqueeze(power_of_2(largest(part) - largest(both) + (more(part) - more(both))), -1);
  }
  Tensor out_, log_sum_;
};

}  // namespace

AttentionCall RingAttention::on_keys_of(int rank, const AttentionCall& call, const Tensor& q,
                                        const Tensor& k) const {
  AttentionCall one = call;
  one.causal = call.causal && rank == ranks_.rank();
  const auto scores = static_cast<uint64_t>(q.size(0) * q.size(1) * q.size(2) * k.size(2));
  one.position.offset += static_cast<uint64_t>(rank) * ((scores + 3) / 4);
  return one;
}

AttentionResult RingAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionCall& call) const {
  check(!call.mask.defined(), "ring_attn: attention has a mask; want none, or all_to_all");
  check(k.size(2) == q.size(2), "ring_attn: the numbers of keys and queries differ; got {} and {}",
        k.size(2), q.size(2));
  const NoGradGuard no_grad;
  const int size = ranks_.size();
  Travelling keys(pair_of(k, v, k.dtype()), ranks_);
  Joined joined;
  for (int step = 0; step < size; ++step) {
    const int owner = (ranks_.rank() + size - step) % size;
    const bool is_last = step == size - 1;
    if (!is_last) keys.leave();
    if (!is_hidden(owner, call))
      joined.add(
          AttentionMethod::forward(q, keys.first(), keys.second(), on_keys_of(owner, call, q, k)));
    if (!is_last) keys.arrive();
  }
  return joined.as(q);
}

void RingAttention::backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& g,
                             const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionResult& result, const AttentionCall& call) const {
  const NoGradGuard no_grad;
  const int size = ranks_.size();
  const DType dtype = result.log_sum.dtype();
  Travelling keys(pair_of(k, v, k.dtype()), ranks_);
  const TensorOptions sums{dtype, k.device()};
  Travelling slopes(zeros(keys.pair().shape(), sums), ranks_);  // of the current keys
  Tensor of_queries = zeros(q.shape(), sums);
  for (int step = 0; step < size; ++step) {
    const int owner = (ranks_.rank() + size - step) % size;
    const bool is_last = step == size - 1;
    if (!is_last) keys.leave();
    if (!is_hidden(owner, call)) {
      const Tensor part_q = heads_like(q), part_k = heads_like(k), part_v = heads_like(v);
      AttentionMethod::backward(part_q, part_k, part_v, g, q, keys.first(), keys.second(), result,
                                on_keys_of(owner, call, q, k));
      of_queries.add_(untracked::cast(part_q, dtype));
      slopes.pair().add_(pair_of(part_k, part_v, dtype));
    }
    if (!is_last) keys.arrive();
    slopes.leave();  // after the last step they are back
    slopes.arrive();
  }
  const std::pair<Tensor, Tensor> results[] = {
      {dq, of_queries}, {dk, slopes.first()}, {dv, slopes.second()}};
  for (auto [to, from] : results) to.copy_(from);
}

}  // namespace booster
