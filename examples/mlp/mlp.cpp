// The README's loop: an MLP learns where the signs of two coordinates agree.
//   build/examples/mlp [PRECISION [cpu|cuda]]
//   build/tools/booster run --nproc_per_node 2 build/examples/mlp bf16
#include <booster/booster.h>

#include <fmt/core.h>

using namespace booster;

std::pair<Tensor, Tensor> make_points(int64_t n) {
  Tensor points = uniform({n, 2}, -1, 1);
  Tensor agree = greater(select(points, 1, 0) * select(points, 1, 1), 0);
  return {points, cast(agree, DType::i64)};
}

int main(int argc, char** argv) {
  report_uncaught_errors();                              // an error ends in a sentence
  World world = launch_from_env();
  std::string where = argc > 2 ? argv[2] : "cpu";
  check(where == "cpu" || where == "cuda", "mlp: no such device; got {}, want cpu or cuda", where);
  Device device = where == "cuda" ? Device::cuda(world.local_rank) : Device();
  Booster booster({.plugin = world.size > 1 ? "torch_ddp" : "single",
                   .mixed_precision = argc > 1 ? argv[1] : "fp32"});

  auto [points, classes] = make_points(4096);
  auto model = models::mlp({2, 64, 64, 2});
  model->to(device);                                     // for a GPU: this, and the loader's device
  auto optimizer = AdamW(model.parameters(), {.lr = 1e-2});
  auto criterion = CrossEntropyLoss();
  auto loader = booster.prepare_dataloader(
      TensorDataset(points, classes),
      {.batch_size = 64, .shuffle = true, .drop_last = true, .device = device});
  auto scheduler =
      LinearWarmupLR(optimizer, {.warmup_steps = 10, .total_steps = 5 * loader.size()});

  auto boosted = booster.boost(model, optimizer, criterion, loader, scheduler);
  auto& [net, opt, loss_fn, data, lr] = boosted;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& [point, label] : data) {
      opt.zero_grad();
      auto loss = loss_fn(net(point), label);
      booster.backward(loss, opt);
      auto report = opt.step();                          // report.skipped(), .grad_norm() ...
      lr.step(report);
    }
  }
  auto [unseen, truth] = make_points(1000);
  Tensor answers = argmax(net(unseen.to(device)), -1);
  Tensor right = mean(cast(equal(answers, truth.to(device)), DType::f32));
  if (world.rank == 0) fmt::print("accuracy {:.1f} %\n", 100 * right.item());
}
