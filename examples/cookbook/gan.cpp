// A GAN: a generator learns points on a ring from noise, against a critic that tells them from the
// data's. Both are boosted together and share the loss scale. With FOLDER the training is saved
// there, and a second run resumes it.
//   build/examples/gan [PRECISION [LAYOUT [FOLDER [STEPS]]]]
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <numbers>

using namespace booster;

constexpr int64_t batch = 64, noise_size = 4;

Model network(int64_t in, int64_t out) {
  return Sequential(
      {Linear(in, 64), LeakyReLU(0.2), Linear(64, 64), LeakyReLU(0.2), Linear(64, out)});
}

Tensor drawn_points(int64_t n) {
  const Tensor angle = uniform({n, 1}, 0, 2 * std::numbers::pi);
  return cat({cos(angle), sin(angle)}, 1) + normal({n, 2}, 0, 0.02);
}

// The error of a critic that should say `real` for all rows.
Tensor error(const Tensor& said, bool real) {
  return binary_cross_entropy_with_logits(said, full_like(said, real ? 1 : 0));
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model generator = network(noise_size, 2), critic = network(2, 1);
  const AdamOptions adam = {.lr = 2e-3, .betas = {0.5, 0.99}};
  BoostedGroup gan = booster.boost(
      {generator, critic}, {Adam(generator.parameters(), adam), Adam(critic.parameters(), adam)});
  BoostedModel &g = gan.models[0], &c = gan.models[1];
  BoostedOptimizer &opt_g = gan.optimizers[0], &opt_c = gan.optimizers[1];
  seed_ranks(1, booster.plugin().mesh());  // ranks draw different points

  int64_t step = 0;
  const int64_t steps = argc > 4 ? std::stoll(argv[4]) : 1500;
  if (argc > 3)
    if (const auto resumed = resume_training(
            argv[3], gan, {}, [](const std::string& line) { fmt::print("{}\n", line); }))
      step = resumed->step;
  for (; step < steps; ++step) {
    const Tensor made = g(normal({batch, noise_size}));
    opt_c.zero_grad();
    booster.backward(error(c(drawn_points(batch)), true) + error(c(made.detach()), false), opt_c);
    opt_c.step();
    opt_g.zero_grad();
    booster.backward(error(c(made), true), opt_g);
    opt_g.step();
  }
  if (argc > 3) save_training(argv[3], gan, {}, {.step = step});

  const NoGradGuard no_grad;
  const Tensor points = g(normal({1000, noise_size}));
  const double apart = mean(abs(norm(points, {1}) - 1)).item();
  const double spread = norm(mean(points, {0})).item();
  if (world.rank == 0)
    fmt::print("step {} scale {} distance {:.6f} centre {:.6f}\n", step, opt_g.loss_scale(), apart,
               spread);
}
