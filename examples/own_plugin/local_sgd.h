// local_sgd: each rank trains a replica on its own share of the data, and every few steps all take
// the mean of what they hold. In between, ranks exchange nothing but whether a step is skipped.
#pragma once

#include <booster/booster.h>

namespace local_sgd {

using namespace booster;

class LocalSGD : public Plugin {
 public:
  // Replicas are averaged after every `every` steps of an optimizer.
  explicit LocalSGD(int64_t every) : every_(every) {
    check(every >= 1, "local_sgd: every must be at least 1; got {}", every);
  }

  const char* name() const override { return "local_sgd"; }
  Mesh mesh() const override { return mesh_; }

  // Before the strategy casts anything: everybody starts from rank 0's numbers.
  void shard(const Model& model, const Optimizers& optimizers) override {
    for (const NamedTensor& held : model.state_dict()) group().broadcast(held.tensor);
    for (const Optimizer& optimizer : optimizers)  // may hold parameters of the loss besides
      for (const NamedTensor& parameter : optimizer.parameters())
        group().broadcast(parameter.tensor);
    model_ = model;
    for (const Optimizer& optimizer : optimizers) steps_.push_back({optimizer, 0});
  }

  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override {
    options.rank = group().rank();
    options.world_size = group().size();
    options.gather = gather_numbers(group());  // for streams: ranks end together
    return DataLoader(std::move(dataset), std::move(options));
  }

  // If one rank skips a step all do: counts of steps, loss scales and schedules stay the same, and
  // so do scales of 8-bit floats.
  void agree(Tensor& numbers, Among) override { group().all_reduce(numbers, CollectiveOp::max); }

  // The step is taken, on masters where there are some. What collectives write gets a new version:
  // when this returns, the step writes new masters to their parameters, and autocast makes new
  // copies of new parameters. Ranks make the same calls, so their counts of steps are the same.
  void sync_params(const Optimizers& stepped) override {
    for (const Optimizer& optimizer : stepped)
      for (auto& [known, steps] : steps_)
        if (known == optimizer && ++steps % every_ == 0) average(optimizer);
  }

  // A checkpoint is one model, also between two averages: the mean, moments included.
  void join(StateDict& state) const override {
    for (NamedTensor& held : state) {
      held.tensor = held.tensor.detach().clone();  // it shares memory with what trains on
      average(held.tensor);
    }
  }

 private:
  void average(const Optimizer& optimizer) const {
    for (const NamedTensor& parameter : optimizer.master_parameters()) average(parameter.tensor);
    for (const NamedTensor& buffer : model_.buffers()) average(buffer.tensor);
  }
  // Counts (a batch normalisation's) are the same everywhere.
  void average(const Tensor& tensor) const {
    if (is_floating(tensor.dtype())) group().all_reduce(tensor, CollectiveOp::mean);
  }

  int64_t every_;
  Group world_ = launch_from_env().group();
  Mesh mesh_{world_, {{"data", world_.size()}}};
  Model model_;
  std::vector<std::pair<Optimizer, int64_t>> steps_;  // of each optimizer, skipped ones included
};

}  // namespace local_sgd
