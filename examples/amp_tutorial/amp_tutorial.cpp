// Colossal-AI's tutorial of mixed precision, step by step: a Vision Transformer on Caltech101.
//   export DATA=/path/to/data
//   build/tools/booster run --nproc_per_node 1 build/examples/amp_tutorial [MODEL [cpu|cuda]]
#include <booster/booster.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

using namespace booster;

int main(int argc, char** argv) {
  // Step 2. The ranks, from the environment that the run tool makes.
  report_uncaught_errors();
  const World world = launch_from_env();
  const std::string where = argc > 2 ? argv[2] : "cpu";
  check(where == "cpu" || where == "cuda", "no such device; got {}, want cpu or cuda", where);
  const Device device = where == "cuda" ? Device::cuda(world.local_rank) : Device();

  // Step 3. Model, data, optimizer, loss, schedule.
  constexpr int num_epochs = 2;
  constexpr int64_t batch_size = 128;
  const char* root = std::getenv("DATA");
  check(root != nullptr, "DATA: not set; want the folder of 101_ObjectCategories");
  const Caltech101 train_dataset(
      root, {.transform = Compose(Resize(256), RandomResizedCrop(224), RandomHorizontalFlip(),
                                  ToTensor(), Gray2RGB(),
                                  Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}))});
  auto model = models::vit(argc > 1 ? argv[1] : "vit_base_patch16_224", {.drop_rate = 0.1});
  model->to(device);
  auto optimizer = SGD(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  auto criterion = CrossEntropyLoss();

  // Step 4. The strategy and the plugin. To choose the options of the first:
  //   FP16TorchMixedPrecision({.init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5,
  //                            .growth_interval = 2000})
  Booster booster({.plugin = TorchDDPPlugin(), .mixed_precision = "fp16"});
  auto train_dataloader = booster.prepare_dataloader(
      train_dataset,
      {.batch_size = batch_size, .shuffle = true, .drop_last = true, .device = device});
  // The tutorial gives the number of epochs as total_steps and steps once in each; in steps of the
  // optimizer all 50 of the warm-up are taken.
  auto lr_scheduler = LinearWarmupLR(
      optimizer, {.warmup_steps = 50,
                  .total_steps = std::max<int64_t>(50, num_epochs * train_dataloader.size())});
  auto boosted = booster.boost(model, optimizer, criterion, train_dataloader, lr_scheduler);

  // Step 5. The loop.
  auto& [net, opt, loss_fn, data, lr] = boosted;
  net.train();
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    for (auto& [image, label] : data) {
      opt.zero_grad();
      const Tensor output = net(image);
      const Tensor loss = loss_fn(output, label);
      booster.backward(loss, opt);
      const StepReport report = opt.step();
      lr.step(report);
      if (world.rank == 0)
        fmt::print("epoch {} loss {:.4f}{}\n", epoch, loss.item(),
                   report.skipped() ? ", step skipped" : "");
    }
  }
}
