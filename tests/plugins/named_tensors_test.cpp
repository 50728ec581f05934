// Models of several tensors train in every plugin as in one process.
#include "examples/several_tensors/encoder_decoder.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>

// A namespace of its own, because other tests have layouts and cases too.
namespace booster::testing::named_tensors {
namespace {

constexpr int64_t width = 5, rows_of_batch = 12;

// Changes "x" where the mask is not 0, adds to "aux", and hands on the others. Renames "x" to "y"
// or back if asked.
class Step : public Module {
 public:
  explicit Step(bool renames) : Module("Step"), renames_(renames) {}
  Linear& linear = add<Linear>("linear", width, width);

 private:
  Tensors forward_named(const Tensors& x) override {
    const bool was_x = x.contains("x");
    const Tensor given = was_x ? x["x"] : x["y"];
    const Tensor y = given + tanh(linear(given)) * x["mask"].to(DType::f32).unsqueeze(1);
    const std::string name = was_x != renames_ ? "x" : "y";
    Tensors all = {{name, y}, {"mask", x["mask"]}};
    if (x.contains("gate")) all.set("gate", x["gate"]);
    all.set("aux", y.mean({1}) + (x.contains("aux") ? x["aux"] : Tensor(y.mean({1}))));
    return all;
  }
  bool renames_;
};

// Makes the model's inputs, which a gradient may also pass.
class First : public Module {
 public:
  explicit First(bool has_gate) : Module("First"), has_gate_(has_gate) {}
  Linear& linear = add<Linear>("linear", width, width);

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor y = linear(x["x"]);
    if (!has_gate_) return {{"x", y}, {"mask", x["mask"]}};
    return {{"x", y}, {"mask", x["mask"]}, {"gate", sigmoid(y)}};
  }
  bool has_gate_;
};

struct Case {
  int steps = 2;
  bool has_gate = false, uses_aux = true;
  std::vector<bool> renames;
};

Case drawn_case(std::mt19937& random) {
  Case drawn{.steps = 2 + static_cast<int>(random() % 3),
             .has_gate = random() % 2 == 0,
             .uses_aux = random() % 3 > 0,
             .renames = {}};
  for (int i = 0; i < drawn.steps; ++i) drawn.renames.push_back(random() % 3 == 0);
  return drawn;
}

Model model_of(const Case& drawn, unsigned seed) {
  manual_seed(seed);
  Sequential all;
  all.append(First(drawn.has_gate));
  for (const bool renames : drawn.renames) all.append(Step(renames));
  return Model(std::move(all));
}

Criterion loss_of(const Case& drawn) {
  return [drawn](const Tensors& y, const Tensors& target) {
    const Tensor out = y.contains("x") ? y["x"] : y["y"];
    Tensor squares = (out - target["goal"]) * (out - target["goal"]) * target["weight"];
    if (drawn.has_gate) squares = squares * y["gate"];
    const Tensor loss = squares.mean();
    return drawn.uses_aux ? loss + y["aux"].mean() * 0.1 : loss;
  };
}

struct Named {
  Tensors input, target;
};

Named batch_of(unsigned seed, int64_t first, int64_t rows) {
  Generator generator(seed);
  const auto part = [&](const Tensor& x) { return narrow(x, 0, first, rows).clone(); };
  const Tensor x = uniform({rows_of_batch, width}, -1, 1, {}, generator),
               goal = uniform({rows_of_batch, width}, -1, 1, {}, generator),
               weight = uniform({rows_of_batch, 1}, 0, 2, {}, generator);
  const Tensor mask = cast(uniform({rows_of_batch}, 0, 3, {}, generator), DType::i64);
  return {Tensors({{"x", x}, {"mask", mask}}).map(part),
          Tensors({{"goal", goal}, {"weight", weight}}).map(part)};
}

struct Layout {
  const char* name;
  std::function<Choice<Plugin>(const Group& world)> plugin;
  bool by_pipeline = false;
};

template <PipelineStyle style>
Choice<Plugin> stages(const Group& world) {
  const bool interleaves = style == PipelineStyle::interleaved;
  PipelineOptions options = {.style = style,
                             .num_microbatches = interleaves ? world.size() : 5,
                             .num_model_chunks = interleaves ? 2 : 1};
  return StagesPlugin(world, options);
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"torch_ddp", [](const Group& world) { return TorchDDPPlugin({}, world); }},
      {"zero", [](const Group& world) { return LowLevelZeroPlugin({.stage = 2}, world); }},
      {"fsdp",
       [](const Group& world) { return FsdpPlugin({.wrap = {"*"}, .recompute = false}, world); }},
      {"fsdp, recompute",
       [](const Group& world) { return FsdpPlugin({.wrap = {"*"}, .recompute = true}, world); }},
      {"gpipe", stages<PipelineStyle::gpipe>, true},
      {"1f1b", stages<PipelineStyle::one_f_one_b>, true},
      {"zero_bubble", stages<PipelineStyle::zero_bubble>, true},
      {"interleaved", stages<PipelineStyle::interleaved>, true},
      {"hybrid",
       [](const Group& world) {
         return HybridParallelPlugin({.pp_size = world.size(), .num_microbatches = 3}, world);
       },
       true}};
  return all;
}

// Trains for three steps; returns the losses.
std::vector<double> train(Booster& booster, BoostedTriple& boosted, const Layout& layout,
                          unsigned seed, int64_t first, int64_t rows, const Group* group) {
  std::vector<double> losses;
  auto& [net, optimizer, loss_fn] = boosted;
  for (unsigned step = 0; step < 3; ++step) {
    const Named batch = batch_of(seed + step, first, rows);
    const Named* at = &batch;
    Tensor loss;
    if (layout.by_pipeline && group) {
      loss = booster.execute_pipeline(at, net, loss_fn, optimizer);
    } else {
      loss = loss_fn(net(batch.input), batch.target);
      booster.backward(loss, optimizer);
    }
    std::vector<double> mean = {loss.item()};
    if (group) group->all_reduce(mean, CollectiveOp::mean);
    losses.push_back(mean[0]);
    optimizer.step();
    optimizer.zero_grad();
  }
  return losses;
}

void check_close(const Tensor& got, const Tensor& want) {
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 2e-5);
}

void check_layout(const Layout& layout, const Case& drawn, unsigned seed) {
  const Group world = launch_from_env().group();
  const Model alone = model_of(drawn, seed), model = model_of(drawn, seed);
  Booster one({.plugin = SinglePlugin({.on_every_rank = true})}),
      booster({.plugin = layout.plugin(world)});
  const auto boost = [&](Booster& by, const Model& of) {
    return by.boost(of, SGD(of.parameters(), {.lr = 0.2}), loss_of(drawn));
  };
  BoostedTriple whole = boost(one, alone), parts = boost(booster, model);
  const int64_t rows = layout.by_pipeline ? rows_of_batch : rows_of_batch / world.size();
  const int64_t first = layout.by_pipeline ? 0 : rows * world.rank();
  const auto want = train(one, whole, layout, seed, 0, rows_of_batch, nullptr);
  const auto got = train(booster, parts, layout, seed, first, rows, &world);
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
  {
    const WholeParameters readable(parts.model);
    const Parameters mine = model.parameters(), all = alone.parameters();
    for (size_t i = 0; i < all.size(); ++i)
      if (mine[i].tensor.numel() > 0) check_close(mine[i].tensor, all[i].tensor);
  }
  const NoGradGuard no_grad;
  parts.model.eval();
  whole.model.eval();
  const Named batch = batch_of(seed, 0, rows_of_batch);
  const Tensors y = parts.model(batch.input), wanted = whole.model(batch.input);
  REQUIRE(y.names() == wanted.names());
  for (const auto& [name, tensor] : wanted) check_close(y[name], tensor);
}

}  // namespace

TEST_CASE("rank: named tensors" * doctest::skip()) {
  unsigned draw = 0;
  for (const unsigned seed : draws(66)) {
    std::mt19937 random(seed);
    const Case drawn = drawn_case(random);
    for (const Layout& layout : layouts()) {
      if (draw++ % 2 == 0 && std::string(layout.name) == "fsdp") continue;
      const int pieces = launch_from_env().size * 2;
      if (std::string(layout.name) == "interleaved" && drawn.steps + 1 < pieces) continue;
      const std::string what = std::string(layout.name) + ", draw " + std::to_string(seed);
      CAPTURE(what);
      check_layout(layout, drawn, 10 * seed);
    }
  }
}
TEST_CASE("models of several tensors train in every plugin as in one process") {
  CHECK(failures(Ranks("rank: named tensors", 2).wait(200)) == "");
  CHECK(failures(Ranks("rank: named tensors", 3).wait(200)) == "");
}

TEST_CASE("rank: wrong named batches" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Case drawn = {.renames = {false, false}};
  const auto error_with = [&](const Named& batch) {
    const Model model = model_of(drawn, 1);
    Booster booster({.plugin = StagesPlugin(world, {.num_microbatches = 2})});
    auto [net, optimizer, loss] =
        booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), loss_of(drawn));
    const Named* at = &batch;
    return error_of([&, &net = net, &optimizer = optimizer, &loss = loss] {
      booster.execute_pipeline(at, net, loss, optimizer);
    });
  };
  Named batch = batch_of(1, 0, 4);
  batch.input.set("mask", ones({3}, {.dtype = DType::i64}));
  CHECK(contains(error_with(batch),
                 "pipeline: input: tensors differ in rows; got 4 of x and 3 of "
                 "mask"));
  batch = batch_of(1, 0, 4);
  batch.target = batch_of(1, 0, 3).target;
  CHECK(contains(error_with(batch), "input and target differ in rows; got 4 and 3"));
  CHECK(contains(error_with({Tensors(), batch.target}), "pipeline: input: got no tensor"));
}
TEST_CASE("rows of named tensors that differ are an error before anything is sent") {
  CHECK(failures(Ranks("rank: wrong named batches", 2).wait(60)) == "");
}

TEST_CASE("rank: a missing name" * doctest::skip()) {
  const World world = launch_from_env();
  const Case drawn = {.renames = {false, false}};
  const Model model = model_of(drawn, 1);
  Booster booster({.plugin = StagesPlugin(world.group(), {.num_microbatches = 2})});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}),
                    [](const Tensors& y, const Tensors&) { return y["logits"].mean(); });
  const Named batch = batch_of(1, 0, 4);
  const Named* at = &batch;
  const std::string text = error_of([&, &net = net, &optimizer = optimizer, &loss = loss] {
    booster.execute_pipeline(at, net, loss, optimizer);
  });
  CAPTURE(text);
  if (world.rank == 1)
    CHECK(contains(text, "no such tensor; got logits; want one of x, mask, aux"));
  else
    CHECK(contains(text, "rank 1"));
}
TEST_CASE("a name that the last stage lacks is an error on all stages") {
  CHECK(failures(Ranks("rank: a missing name", 2).wait(60)) == "");
}

// Its output has another name for each micro-batch.
class Moody : public Module {
 public:
  Moody() : Module("Moody") {}
  Linear& linear = add<Linear>("linear", width, width);

 private:
  Tensors forward_named(const Tensors& x) override {
    const bool first = x["mask"].to_vector<int64_t>()[0] == 0;
    return {{first ? "a" : "b", linear(x["x"])}, {"mask", x["mask"]}};
  }
};

TEST_CASE("rank: other names" * doctest::skip()) {
  const World world = launch_from_env();
  class Last : public Module {
   public:
    Last() : Module("Last") {}
    Linear& linear = add<Linear>("linear", width, width);

   private:
    Tensors forward_named(const Tensors& x) override {
      return {{x.contains("a") ? "a" : "b", linear(x.contains("a") ? x["a"] : x["b"])}};
    }
  };
  const Model model = Sequential({Moody(), Last()});
  Booster booster({.plugin = StagesPlugin(world.group(), {.num_microbatches = 2})});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}),
                    [](const Tensors& y, const Tensors&) { return Tensor(y).mean(); });
  const Named batch = {
      {{"x", ones({4, width})}, {"mask", from_vector(std::vector<int64_t>{0, 0, 1, 1}, {4})}},
      ones({4})};
  for (int i = 0; i < 2; ++i) {
    const Named* at = &batch;
    booster.execute_pipeline(at, net, loss, optimizer);  // the stages follow the names
  }
  net.eval();
  const NoGradGuard no_grad;
  const std::string text = error_of([&, &net = net] { net(batch.input); });
  CAPTURE(text);
  if (world.rank == 1)
    CHECK(contains(text, "outputs of different names; got b, want a"));
  else
    CHECK(contains(text, "rank 1"));
}
TEST_CASE("stages follow names that change, and outputs of other names are not joined") {
  CHECK(failures(Ranks("rank: other names", 2).wait(60)) == "");
}

}  // namespace booster::testing::named_tensors
