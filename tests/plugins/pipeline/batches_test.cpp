// Batches of any size, through stages cut anywhere, agree with one process.
#include "tests/draws.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t width = 6;

int below(std::mt19937& random, int n) {
  return static_cast<int>(random() % static_cast<unsigned>(n));
}

Model drawn_layer(std::mt19937& random) {
  switch (below(random, 5)) {
    case 0: return GELU();
    case 1: return LayerNorm(width);
    case 2: return Sequential({Linear(width, width), Tanh()});
    default: return Linear(width, width);
  }
}

// Returns a model with at least `links` links. The first and last layer have parameters.
Model drawn_model(std::mt19937& random, int links) {
  Sequential model({Linear(width, width)});
  while (model.link_count() < links - 1 || below(random, 3) > 0) model.append(drawn_layer(random));
  model.append(Linear(width, width));
  for (auto& [name, module] : model.named_modules())
    if (!name.empty() && below(random, 5) == 0) module->set_recompute(true);
  for (int64_t i = 0; i + 1 < model.size(); ++i)
    if (below(random, 5) == 0) model[i].freeze();
  return Model(std::move(model));
}

PipelineOptions drawn_options(std::mt19937& random, int stages, int links) {
  constexpr PipelineStyle styles[] = {PipelineStyle::gpipe, PipelineStyle::one_f_one_b,
                                      PipelineStyle::interleaved, PipelineStyle::zero_bubble};
  PipelineOptions options = {.style = styles[below(random, 4)]};
  if (options.style == PipelineStyle::interleaved) options.num_model_chunks = 2;
  const int pieces = stages * options.num_model_chunks;
  if (below(random, 2)) options.microbatch_size = 1 + below(random, 4);
  else options.num_microbatches =
      options.num_model_chunks > 1 ? stages * (1 + below(random, 2)) : 1 + below(random, 6);
  if (below(random, 2)) {
    options.links_per_piece.assign(static_cast<size_t>(pieces), 1);
    for (int left = links - pieces; left > 0; --left)
      ++options.links_per_piece[static_cast<size_t>(below(random, pieces))];
  }
  return options;
}

// Both variants draw the same parameters, batches and calls.
class Run {
 public:
  Run(unsigned seed, const Group* pipeline) : random_(seed) {
    const int stages = launch_from_env().size;
    manual_seed(seed);
    model_ = drawn_model(random_, 2 * stages);
    const PipelineOptions options = drawn_options(random_, stages, model_->link_count());
    Choice<Plugin> plugin = SinglePlugin({.on_every_rank = true});
    if (pipeline) plugin = StagesPlugin(*pipeline, options);
    booster_.emplace(BoosterOptions{.plugin = plugin});
    boosted_.emplace(
        booster_->boost(model_, SGD(model_.parameters(), {.lr = 0.2}), mean_of_squares()));
  }

  // Returns what the run reported, and the parameters.
  std::vector<double> run() {
    for (int step = 0; step < 4; ++step) {
      auto& [model, optimizer, loss] = *boosted_;
      optimizer.zero_grad();
      for (int left = 1 + below(random_, 2); left > 0; --left) train(below(random_, 3) == 0);
      if (below(random_, 2)) told_.push_back(optimizer.clip_grad_by_norm(0.5));
      optimizer.step();
      if (below(random_, 2)) evaluate();
    }
    return told_;
  }
  const Model& model() const { return model_; }

 private:
  Tensor drawn_rows(int64_t rows, int64_t length) {
    Generator generator(random_());
    return uniform({rows, length, width}, -1, 1, {}, generator);
  }

  void train(bool is_local) {
    const int64_t rows = 1 + below(random_, 11);
    const int64_t length = 1 + below(random_, 2);
    const Tensor input = drawn_rows(rows, length), target = drawn_rows(rows, length);
    auto& [model, optimizer, loss] = *boosted_;
    std::unique_ptr<NoSyncGuard> local;
    if (is_local) local.reset(new NoSyncGuard(booster_->no_sync(model, optimizer)));
    const Tensor value = train_on(input, target, *booster_, model, loss, optimizer);
    told_.push_back(value.item());
    CHECK(value.dtype() == DType::f32);
    CHECK(value.ndim() == 0);
  }

  void evaluate() {
    const bool by_mode = below(random_, 2);
    auto& [model, optimizer, loss] = *boosted_;
    std::optional<NoGradGuard> guard;
    if (by_mode) model_.eval();
    else guard.emplace();
    const Tensor output = model(drawn_rows(1 + below(random_, 11), 2));
    for (const double number : output.to_vector<double>()) told_.push_back(number);
    model_.train();
  }

  std::mt19937 random_;
  Model model_;
  std::optional<Booster> booster_;
  std::optional<BoostedTriple> boosted_;
  std::vector<double> told_;
};

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 2e-5 * (1 + std::abs(b[i])))) return false;
  return true;
}

PipelineOptions of_two(PipelineStyle style = PipelineStyle::one_f_one_b) {
  return {.style = style, .num_microbatches = 2};
}

}  // namespace

TEST_CASE("rank: drawn batches" * doctest::skip()) {
  const World world = launch_from_env();
  for (const unsigned seed : testing::draws(60)) {
    const Group group = world.group();
    Run alone(seed, nullptr), spread(seed, &group);
    const std::vector<double> want = alone.run(), got = spread.run();
    INFO("seed ", seed);
    CHECK(are_close(got, want));
    const StateDict wanted = alone.model().state_dict(), held = spread.model().state_dict();
    REQUIRE(wanted.size() == held.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      if (held[i].tensor.numel() > 0)
        CHECK(are_close(held[i].tensor.to_vector<double>(), wanted[i].tensor.to_vector<double>()));
  }
}
TEST_CASE("drawn batches through two stages give what one process gives") {
  run_ranks("rank: drawn batches", 2);
}
TEST_CASE("drawn batches through three stages give what one process gives") {
  run_ranks("rank: drawn batches", 3);
}
TEST_CASE("drawn batches through four stages give what one process gives") {
  run_ranks("rank: drawn batches", 4);
}

// The first stage draws more random numbers than the second.
TEST_CASE("rank: streams" * doctest::skip()) {
  const World world = launch_from_env();
  manual_seed(5);
  const Model model =
      Sequential({Dropout(0.5), Dropout(0.1), Linear(width, width), Dropout(0.5), Identity()});
  PipelineOptions options = of_two();
  options.num_microbatches = 1;
  options.links_per_piece = {3, 2};
  std::vector<double> mask;
  for (int64_t layer : {0, 3})
    dynamic_cast<Sequential&>(model.module())[layer].register_forward_hook(
        [&](Module&, const Tensor& x, const Tensor& y) {
          const auto in = x.to_vector<double>(), out = y.to_vector<double>();
          for (size_t i = 0; i < in.size(); ++i) mask.push_back(in[i] != 0 && out[i] == 0);
          return Tensor();
        });
  Booster booster({.plugin = StagesPlugin(world.group(), options)});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  train_on(ones({8, width}), zeros({8, width}), booster, net, loss, optimizer);
  REQUIRE(mask.size() == 8 * width);
  std::vector<double> of_first = mask;
  world.group().broadcast(of_first);
  if (world.rank == 1) CHECK(of_first != mask);
  std::vector<int64_t> offset = {static_cast<int64_t>(default_generator().state().offset)},
                       first_offset = offset;
  world.group().broadcast(first_offset);
  CHECK(offset == first_offset);
  CHECK(offset[0] > 0);
  CHECK(default_generator().state().seed == 5);
}
TEST_CASE("stages drop different elements, and their generators go on alike") {
  run_ranks("rank: streams", 2);
}

TEST_CASE("rank: another layout" * doctest::skip()) {
  const World world = launch_from_env();
  const auto made = [] {
    return Model(Sequential({Conv2d(2, 3, 1), BatchNorm2d(3), Flatten(), Linear(12, width),
                             Linear(width, width)}));
  };
  const std::string folder = test_folder() + "/checkpoint";
  const auto trained = [&](const Choice<Plugin>& plugin, bool resumes, bool saves) {
    manual_seed(3);
    const Model model = made();
    Booster booster({.plugin = plugin});
    const TensorDataset data(ones({8, 1}), zeros({8}, {.dtype = DType::i64}));
    auto optimizer = AdamW(model.parameters(), {.lr = 0.01});
    Boosted boosted = booster.boost(model, optimizer, mean_of_squares(),
                                    booster.prepare_dataloader(data, {.batch_size = 1}),
                                    ConstantLR(optimizer));
    if (resumes) resume_training(folder, boosted, [](const std::string&) {});
    for (int step = 0; step < 2; ++step) {
      Generator generator(static_cast<uint64_t>(step));
      train_on(uniform({8, 2, 2, 2}, -1, 1, {}, generator), zeros({8, width}), booster,
               boosted.model, boosted.criterion, boosted.optimizer);
      boosted.optimizer.step();
      boosted.optimizer.zero_grad();
    }
    if (saves) save_training(folder, boosted, {.step = 2});
    booster.save_model(boosted.model, folder + (resumes ? "-b" : "-a"));
    return 0;
  };
  // One micro-batch, so that batch normalisation sees the whole batch.
  PipelineOptions cut = of_two(PipelineStyle::zero_bubble), other = of_two(PipelineStyle::gpipe);
  cut.num_microbatches = other.num_microbatches = 1;
  cut.links_per_piece = {1, 4};
  other.links_per_piece = {3, 2};
  trained(StagesPlugin(world.group(), cut), false, true);
  trained(StagesPlugin(world.group(), other), true, false);
  world.group().barrier();
  const Model got = made(), want = made();
  Booster alone({.plugin = SinglePlugin({.on_every_rank = true})});
  const auto load = [&](const Model& model, const std::string& file) {
    auto [net, optimizer] = alone.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    alone.load_model(net, file);
  };
  load(got, folder + "-b");
  // The same four steps in one process.
  manual_seed(3);
  const Model plain = made();
  auto [net, optimizer, loss] =
      alone.boost(plain, AdamW(plain.parameters(), {.lr = 0.01}), mean_of_squares());
  for (int step = 0; step < 4; ++step) {
    Generator generator(static_cast<uint64_t>(step % 2));
    train_on(uniform({8, 2, 2, 2}, -1, 1, {}, generator), zeros({8, width}), alone, net, loss,
             optimizer);
    optimizer.step();
    optimizer.zero_grad();
  }
  const StateDict whole = plain.state_dict(), staged = got.state_dict();
  for (size_t i = 0; i < whole.size(); ++i) {
    INFO(whole[i].name);
    CHECK(are_close(staged[i].tensor.to_vector<double>(), whole[i].tensor.to_vector<double>()));
  }
}
TEST_CASE("a training in stages goes on in stages cut elsewhere, as in one process") {
  run_ranks("rank: another layout", 2);
}
