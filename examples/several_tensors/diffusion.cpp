// A diffusion model of points on a circle. It takes noisy points and their times, and predicts the
// noise. Times are whole numbers, which no precision rounds.
//   build/examples/diffusion [PRECISION] [LAYOUT]
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <numbers>

using namespace booster;

constexpr int64_t times = 50;

class TimedPoints : public Module {
 public:
  TimedPoints() : Module("TimedPoints") {}
  Linear& points = add<Linear>("points", 2, 64);
  Embedding& clock = add<Embedding>("clock", times, 64);

 private:
  Tensors forward_named(const Tensors& x) override { return points(x["x"]) + clock(x["time"]); }
};

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model model = Sequential({TimedPoints(), GELU(), Linear(64, 64), GELU(), Linear(64, 2)});
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 3e-3}), MSELoss());
  seed_ranks(1, booster.plugin().mesh());  // ranks draw different points, stages the same
  double sum = 0;
  for (int step = 0; step < 600; ++step) {
    const Tensor angle = uniform({128, 1}, 0, 2 * std::numbers::pi);
    const Tensor clean = cat({cos(angle), sin(angle)}, 1), noise = normal({128, 2});
    const Tensor time = cast(uniform({128}, 0, times), DType::i64);
    const Tensor kept = 1 - (time.to(DType::f32) + 1).unsqueeze(1) / times;
    const Tensor noisy = clean * sqrt(kept) + noise * sqrt(1 - kept);
    const std::pair<Tensors, Tensor> batch = {{{"x", noisy}, {"time", time}}, noise};
    const auto* at = &batch;
    sum += booster.execute_pipeline(at, net, loss_fn, opt).item();
    opt.step();
    opt.zero_grad();
    if (step % 100 < 99) continue;
    if (world.rank == 0) fmt::print("step {} loss {:.4f}\n", step + 1, sum / 100);
    sum = 0;
  }
}
