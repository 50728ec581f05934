#include "examples/training/non_finite.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace example {

using namespace booster;

void LossWatch::see(int64_t step, double loss) {
  step_ = step;
  loss_ = loss;
  if (found()) return;
  finite_step_ = step;
  finite_loss_ = loss;
}

bool LossWatch::found() const { return !std::isfinite(loss_); }

bool LossWatch::is_news(bool found) {
  const bool news = found && !told_;
  told_ = found;
  return news;
}

std::string LossWatch::describe(const World& world) const {
  constexpr size_t fields = 4;
  std::vector<double> mine = {static_cast<double>(step_), loss_, static_cast<double>(finite_step_),
                              finite_loss_};
  std::vector<double> all(fields * static_cast<size_t>(world.size));
  world.group().all_gather(all, mine);
  size_t rank = 0;
  while (fields * (rank + 1) < all.size() && std::isfinite(all[fields * rank + 1])) ++rank;
  const double* seen = &all[fields * rank];
  const std::string whose = world.size > 1 ? fmt::format(" of rank {}", rank) : "";
  const std::string before =
      seen[2] > 0 ? fmt::format("the last finite one was {:.4g}, in step {:.0f}", seen[3], seen[2])
                  : "there was no finite one";
  return fmt::format("step {:.0f}: the loss{} is {}; {}", seen[0], whose, seen[1], before);
}

}  // namespace example
