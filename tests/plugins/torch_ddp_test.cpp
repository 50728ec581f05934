// Each test case without a rank runs the skipped case of the same name in several processes.
#include "plugins/torch_ddp.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/layers.h"
#include "core/nn/models.h"
#include "core/optim/optimizers.h"
#include "core/tensor/random/random.h"
#include "parallel/mesh.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

constexpr int64_t batch = 12, features = 7, classes = 5;

// Returns the joined batch, the same on every rank. Rank r of n takes rows r, r + n, ..., as the
// sampler does.
Tensor inputs(int step) {
  Generator generator(100 + static_cast<uint64_t>(step));
  return uniform({batch, features}, -1, 1, {}, generator);
}
Tensor labels() {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < batch; ++i) values.push_back(i % classes);
  return from_vector(values, {batch});
}
Tensor share(const Tensor& x, const World& world) {
  std::vector<int64_t> rows;
  for (int64_t i = world.rank; i < batch; i += world.size) rows.push_back(i);
  return index_select(x, 0, from_vector(rows, {static_cast<int64_t>(rows.size())})).detach();
}

Model small_model() {
  manual_seed(3);
  return models::mlp({features, 16, 16, classes});
}

double largest_difference(const Model& a, const Model& b) {
  double largest = 0;
  const auto x = a.parameters(), y = b.parameters();
  for (size_t i = 0; i < x.size(); ++i) {
    const auto p = x[i].tensor.to_vector<double>(), q = y[i].tensor.to_vector<double>();
    for (size_t k = 0; k < p.size(); ++k) largest = std::max(largest, std::abs(p[k] - q[k]));
  }
  return largest;
}

// Trains ten steps on the joined batch in one process.
Model trained_alone() {
  Model model = small_model();
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    backward(cross_entropy(model(inputs(step)), labels()));
    optimizer.step();
  }
  return model;
}

// Does what a Booster does with a model that it boosts.
void take_over(TorchDdp& plugin, const Model& model, const Optimizer& optimizer) {
  plugin.shard(model, optimizer);
  plugin.prepare(model, optimizer);
}
// Runs a backward pass. With `sync` the gradients are then those of all ranks.
void run_backward(TorchDdp& plugin, const Tensor& loss, bool sync = true) {
  PassScope pass = plugin.begin({.pass = Pass::backward, .sync = sync});
  backward(loss);
  pass.end();
}

void check_equals_one_process(TorchDDPOptions options) {
  const World world = launch_from_env();
  Model model = small_model();
  if (world.rank != 0) {  // only rank 0's weights count
    const NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.tensor.fill_(9);
  }
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  TorchDdp plugin(options);
  take_over(plugin, model, optimizer);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    run_backward(plugin, cross_entropy(model(share(inputs(step), world)), share(labels(), world)));
    plugin.sync_grads(optimizer);
    optimizer.step();
  }
  CHECK(largest_difference(model, trained_alone()) < 1e-5);
}

}  // namespace

TEST_CASE("rank: equals one process" * doctest::skip()) {
  check_equals_one_process({});
  check_equals_one_process({.bucket_cap_mb = 1e-4});
  check_equals_one_process({.bucket_cap_mb = 1e-4, .gradient_as_bucket_view = false});
  check_equals_one_process({.find_unused_parameters = true});
  check_equals_one_process({.bucket_cap_mb = 1e-4, .static_graph = true});
}
TEST_CASE("two and three ranks equal one process on the joined batch, for any bucket size") {
  run_ranks("rank: equals one process", 2);
  run_ranks("rank: equals one process", 3);
}

TEST_CASE("rank: no_sync" * doctest::skip()) {
  const World world = launch_from_env();
  Model model = small_model();
  SGD optimizer(model.parameters(), {.lr = 0.1});
  TorchDdp plugin;
  take_over(plugin, model, optimizer);
  const Tensor x = share(inputs(0), world), y = share(labels(), world);
  run_backward(plugin, cross_entropy(model(x), y) * 0.5, false);
  const double local = sum(square(model.parameters()[0].tensor.grad())).item();
  run_backward(plugin, cross_entropy(model(x), y) * 0.5);
  // The same batch twice at half weight gives the gradient of the joined batch.
  Model alone = small_model();
  backward(cross_entropy(alone(inputs(0)), labels()));
  const Tensor got = model.parameters()[0].tensor.grad(),
               want = alone.parameters()[0].tensor.grad();
  CHECK(amax(abs(got - want)).item() < 1e-6);
  CHECK(std::abs(local - sum(square(got)).item() / 4) > 1e-9);  // it really was this rank's own
}
TEST_CASE("under no_sync gradients stay local and join at the next synchronised pass") {
  run_ranks("rank: no_sync", 2);
}

TEST_CASE("rank: unused parameter" * doctest::skip()) {
  const World world = launch_from_env();
  Tensor a = ones({3}).requires_grad_(), b = ones({2}).requires_grad_(),
         c = ones({2}).requires_grad_();
  struct Two : Module {
    Two(Tensor a, Tensor b, Tensor c)
        : Module("Two"),
          a(add_parameter("used", a)),
          b(add_parameter("sometimes", b)),
          c(add_parameter("never", c)) {}
    Tensor forward(const Tensor& x) override { return x; }
    Tensor a, b, c;
  };
  auto module = std::make_shared<Two>(a, b, c);
  Model model(module);
  SGD optimizer(model.parameters(), {.lr = 1});
  auto loss = [&] {
    const Tensor used = sum(module->a * 2);
    return world.rank == 0 ? used + sum(module->b * 4) : used;
  };
  {
    TorchDdp plugin({.find_unused_parameters = true});
    take_over(plugin, model, optimizer);
    run_backward(plugin, loss());
    plugin.sync_grads(optimizer);
    CHECK(module->a.grad().to_vector<float>()[0] == 2);
    CHECK(module->b.grad().to_vector<float>()[0] == 2);  // the mean of 4 and 0
    CHECK_FALSE(module->c.grad().defined());
  }
  optimizer.zero_grad();
  TorchDdp strict;
  take_over(strict, model, optimizer);
  run_backward(strict, sum(module->a * 2) + sum(module->b));
  CHECK_THROWS_WITH_AS(strict.sync_grads(optimizer),
                       doctest::Contains("got no gradient in this step: never"), Error);
}
TEST_CASE("unused parameters are found, or reported by name") {
  run_ranks("rank: unused parameter", 2);
}

TEST_CASE("rank: buffers" * doctest::skip()) {
  const World world = launch_from_env();
  Model model = Sequential{BatchNorm2d(2), Conv2d(2, 2, 1)};
  SGD optimizer(model.parameters(), {.lr = 0.1});
  TorchDdp plugin;
  take_over(plugin, model, optimizer);
  Generator generator(static_cast<uint64_t>(world.rank));
  for (int step = 0; step < 2; ++step) {
    const Tensor y = model(normal({3, 2, 4, 4}, world.rank, 1, {}, generator));
    run_backward(plugin, sum(y));
    const auto before = model.buffers()[0].tensor.to_vector<float>();
    plugin.sync_params(optimizer);
    const auto after = model.buffers()[0].tensor.to_vector<float>();
    CHECK((before == after) == (world.rank == 0));
    std::vector<float> first = after;
    world.group().broadcast(first);
    CHECK(after == first);
  }
}
TEST_CASE("rank 0's buffers go to all ranks after each step") { run_ranks("rank: buffers", 2); }

TEST_CASE("rank: masters" * doctest::skip()) {
  const World world = launch_from_env();
  Tensor w = full({1}, 1 + world.rank, {DType::f16}).requires_grad_();
  Optimizer optimizer = SGD({w}, {.lr = 1});
  optimizer.set_master("0", full({1}, 1.0001 + world.rank));
  struct Holder : Module {
    explicit Holder(Tensor w) : Module("Holder") { add_parameter("w", w); }
    Tensor forward(const Tensor& x) override { return x; }
  };
  TorchDdp plugin;
  take_over(plugin, Model(std::make_shared<Holder>(w)), optimizer);
  CHECK(w.item() == 1);
  CHECK(optimizer.master("0").item() == doctest::Approx(1.0001).epsilon(1e-7));
  w.set_grad(full({1}, 0.5, {DType::f16}));
  optimizer.step();
  CHECK(optimizer.master("0").item() == doctest::Approx(0.5001).epsilon(1e-6));
}
TEST_CASE("rank 0's masters are everybody's, with all their digits") {
  run_ranks("rank: masters", 2);
}

TEST_CASE("rank: agree" * doctest::skip()) {
  const World world = launch_from_env();
  TorchDdp plugin;
  Tensor found = scalar(world.rank == 1 ? 1 : 0);
  plugin.agree(found, Among::everybody);
  CHECK(found.item() == 1);
}
TEST_CASE("one rank's overflow is every rank's") { run_ranks("rank: agree", 3); }

TEST_CASE("a bucket holds one dtype, and dtypes that alternate do not cut buckets short") {
  Parameters parameters;
  for (int i = 0; i < 8; ++i)
    parameters.push_back(
        {std::to_string(i), zeros({4}, {i % 2 == 0 ? DType::f16 : DType::f32}).requires_grad_()});
  GradientBuckets buckets(Group(), {.cap_bytes = 1024});
  buckets.add(parameters);
  CHECK(buckets.count() == 2);
  for (int i = 0; i < 8; ++i) CHECK(buckets.window(i).dtype() == parameters[i].tensor.dtype());
}

TEST_CASE("a dtype that gradients cannot travel in is an error that lists the others") {
  CHECK_THROWS_WITH_AS(TorchDdp({.comm_dtype = "pf16"}, Group()),
                       doctest::Contains("(did you mean fp16?)"), Error);
}

TEST_CASE("a plugin that serves a model cannot be copied") {
  Model model = small_model();
  SGD optimizer(model.parameters(), {.lr = 0.1});
  TorchDdp plugin({}, Group());
  const TorchDdp copy(plugin);
  plugin.prepare(model, optimizer);
  CHECK_THROWS_AS(TorchDdp{plugin}, Error);
}
