#include "examples/language_model/evaluation.h"

#include "examples/language_model/data.h"
#include "examples/training/agreement.h"
#include "examples/training/stop_signal.h"

#include <algorithm>
#include <vector>

namespace language_model {

using namespace booster;

namespace {

Tensor counted(const Tensor& target) {
  return not_equal(target, static_cast<double>(CrossEntropyOptions{}.ignore_index));
}

// A batch's logits and targets as rows.
Tensor token_losses(const Tensor& logits, const Tensor& target, Reduction reduction) {
  return cross_entropy(flatten(logits, 0, 1), flatten(target), {.reduction = reduction});
}

}  // namespace

Criterion next_token_loss() {
  return {"next_token_loss",
          [](const Tensor& logits, const Tensor& target) {
            return token_losses(logits, target, Reduction::mean);
          },
          [](const Tensor& target) { return sum(cast(counted(target), DType::f64)); }};
}

Tensor row_losses(const Tensor& logits, const Tensor& target) {
  const Tensor each = cast(token_losses(logits, target, Reduction::none), DType::f64);
  return sum(reshape(each, target.shape()), {1});
}

// All ranks run the same number of forward passes, because a forward may be collective. A rank with
// no sample left runs one whose result is ignored.
std::optional<Likelihood> likelihood_of(const Evaluator& evaluator, const Dataset& data) {
  const NoGradGuard no_grad;
  const Mesh mesh = evaluator.booster.plugin().mesh();
  const int64_t most = evaluator.batch_size, step = most * mesh.size("data");
  std::vector<double> totals(2);  // of losses, of tokens
  evaluator.model.eval();
  for (int64_t begin = 0; begin < data.size(); begin += step) {
    if (example::largest(evaluator.world, {example::stop_signal()})[0] != 0) return {};
    const int64_t mine = begin + most * mesh.place("data");
    const int64_t count = std::clamp<int64_t>(data.size() - mine, 0, most);
    const Batch batch = batch_of(data, count > 0 ? mine : 0, std::max<int64_t>(count, 1));
    const Tensor target = batch.label.to(evaluator.device);
    const Tensor logits = evaluator.model(batch.image.to(evaluator.device));
    const double loss = token_losses(logits, target, Reduction::sum).item();
    if (count == 0) continue;
    totals[0] += loss;
    totals[1] += sum(cast(counted(target), DType::f64)).item();
  }
  if (evaluator.world.size > 1) evaluator.world.group().all_reduce(totals);
  // Ranks that share a batch have each counted it, in both totals.
  const double copies =
      static_cast<double>(evaluator.world.size) / static_cast<double>(mesh.size("data"));
  return Likelihood{totals[0] / totals[1], static_cast<int64_t>(totals[1] / copies)};
}

}  // namespace language_model
