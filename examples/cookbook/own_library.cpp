// A library with a strategy and a plugin of one's own. To use both in a config:
//   "booster": {"libraries": ["build/examples/libown_library.so"],
//               "mixed_precision": "bf16_watched", "plugin": "plain_ddp"}
#include <booster/booster.h>

using namespace booster;

// bf16 as torch's autocast, with f32 weights, that skips a step whose gradients are not finite.
class WatchedBf16 : public Precision {
 public:
  const char* name() const override { return "bf16_watched"; }
  const OpPolicy* policy(Device device) const override {
    return device.type == DeviceType::cuda ? &cuda_ : &cpu_;
  }
  Verdict inspect(Optimizer& optimizer) override { return {find_non_finite(optimizer), {}, {}}; }

 private:
  OpPolicy cpu_ = torch_autocast_policy(DeviceType::cpu, DType::bf16);
  OpPolicy cuda_ = torch_autocast_policy(DeviceType::cuda, DType::bf16);
};

// Data parallelism in its plainest form: all gradients are averaged before a step, one by one.
class PlainDdp : public Plugin {
 public:
  const char* name() const override { return "plain_ddp"; }
  Mesh mesh() const override { return mesh_; }

  void shard(const Model& model, const Optimizers& optimizers) override {
    const NoGradGuard no_grad;
    for (const NamedTensor& held : model.state_dict()) group().broadcast(held.tensor);
    for (const Optimizer& optimizer : optimizers)  // may hold parameters of the loss too
      for (const NamedTensor& parameter : optimizer.parameters())
        group().broadcast(parameter.tensor);
    model_ = model;
  }
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override {
    options.rank = mesh_.place("data");
    options.world_size = mesh_.size("data");
    return DataLoader(std::move(dataset), std::move(options));
  }

  // The mean of equal numbers is that number, so gradients that were exchanged before stay right.
  void sync_grads(const Optimizer& optimizer) override {
    for (const NamedTensor& parameter : optimizer.parameters_with_grad())
      group().all_reduce(parameter.tensor.grad(), CollectiveOp::mean);
  }
  void agree(Tensor& numbers, Among) override { group().all_reduce(numbers, CollectiveOp::max); }
  void sync_params(const Optimizers&) override {
    for (const NamedTensor& buffer : model_.buffers()) group().broadcast(buffer.tensor);
  }

 private:
  Mesh mesh_{launch_from_env().group()};
  Model model_;
};

BOOSTER_LIBRARY {
  precision_registry().add({"bf16_watched",
                            "torch's autocast in bf16; skips steps that are not finite",
                            {},
                            [](const OptionValues&) { return std::make_unique<WatchedBf16>(); }});
  plugin_registry().add({"plain_ddp",
                         "averages every gradient before a step",
                         {},
                         [](const OptionValues&) { return std::make_unique<PlainDdp>(); }});
}
