#include "booster/checkpoint/averages.h"

#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/training/session.h"
#include "core/tensor/tensor.h"

#include <string_view>
#include <utility>
#include <vector>

namespace booster {

namespace {
constexpr std::string_view suffix = ".average";
constexpr const char* loading = "load_averages";
}  // namespace

TensorMap averages_in(const std::filesystem::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  TensorMap averages;
  for (const std::string& file : reader.files(TensorKind::optimizer))
    for (const auto& [name, tensor] : reader.load(TensorKind::optimizer, file))
      if (name.ends_with(suffix))
        averages.emplace(name.substr(0, name.size() - suffix.size()), tensor);
  if (averages.empty())
    fail_data(
        "{}: no averages of weights; want the checkpoint of a training that keeps them "
        "(train.ema_decay)",
        checkpoint.string());
  return averages;
}

void load_averages(const BoostedModel& model, const std::filesystem::path& checkpoint) {
  const Session& session = model.session();
  const Group group = session.plugin->group();
  TensorMap whole, held;
  finish_together(group, loading, [&] { whole = averages_in(checkpoint); });
  std::vector<std::pair<Tensor, Tensor>> copies;
  run_together(group, loading, [&] {
    held = split_model(session, whole);
    for (const auto& [name, tensor] : session.model.state_dict())
      if (const auto one = held.extract(name); !one.empty()) {
        if (one.mapped().shape() != tensor.shape())
          fail_data("{}: the average of {} has another shape; got {}, want {}", checkpoint.string(),
                    name, one.mapped().shape(), tensor.shape());
        copies.emplace_back(tensor, one.mapped());
      }
    if (!held.empty())
      fail_data("{}: averages of what the model lacks; got {}", checkpoint.string(),
                held.begin()->first);
  });
  settle(session);
  const NoGradGuard no_grad;
  for (auto& [to, from] : copies) to.detach().copy_(from);
}

}  // namespace booster
