// A training that goes from layout to layout (plugin, number of ranks, batch size) is the training
// of one process that saw the same batches; and what it has right after a resume is what was saved,
// bit for bit.
#include "booster/booster.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace booster;
using doctest::Contains;

namespace {

constexpr int64_t samples = 72, features = 5, outputs = 3;  // sizes that no number of ranks divides
constexpr uint64_t order_seed = 42;

struct Dice {
  std::mt19937 engine;
  int below(size_t n) {
    return std::uniform_int_distribution<int>(0, static_cast<int>(n) - 1)(engine);
  }
  template <class T>
  const T& of(const std::vector<T>& all) { return all[static_cast<size_t>(below(all.size()))]; }
};

struct Kind {
  const char *strategy, *optimizer;
};

// One program run of a chain.
struct Link {
  std::string plugin;
  std::vector<int> ranks;  // of the world's
  int64_t batch_size = 0;
  int steps = 0;
  bool async = false, shards = false;

  int64_t samples_per_step() const { return batch_size * static_cast<int64_t>(ranks.size()); }
};

Link drawn_link(Dice& dice) {
  Link link;
  link.plugin = dice.of<std::string>({"single", "torch_ddp", "zero 1", "zero 2", "fsdp"});
  link.ranks = {0, 1, 2, 3};
  std::ranges::shuffle(link.ranks, dice.engine);
  link.ranks.resize(link.plugin == "single" ? 1 : static_cast<size_t>(1 + dice.below(4)));
  const int64_t step = dice.of<int64_t>({12, 24, 36});
  link.batch_size = step / static_cast<int64_t>(link.ranks.size());
  link.steps = 1 + dice.below(5);
  link.async = dice.below(2), link.shards = dice.below(2);
  return link;
}

Tensor data_input() {
  Generator generator(5);
  return uniform({samples, features}, -1, 1, {}, generator);
}
Tensor data_target() {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i * i % outputs);
  return from_vector(labels, {samples});
}

Choice<Precision> precision_of(const std::string& strategy) {
  if (strategy == "fp16") return FP16TorchMixedPrecision({.init_scale = 64, .growth_interval = 3});
  if (strategy == "bf16 masters") return BF16MixedPrecision({.style = "cast"});
  return strategy;
}

Optimizer optimizer_of(const std::string& rule, const Model& model) {
  // A large eps: else gradients that are mere rounding move weights as far as others.
  constexpr double lr = 0.02, eps = 1e-3, decay = 0.01;
  if (rule == "sgd") return SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  if (rule == "rmsprop")
    return RMSprop(model.parameters(),
                   {.lr = lr / 10, .eps = eps, .momentum = 0.5, .centered = true});
  if (rule == "lamb")
    return LAMB(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
  return AdamW(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
}

struct Training {
  Booster booster;
  Boosted boosted;
  ParameterAverage average{boosted.optimizer.unwrap(), {.decay = 0.7}};

  Tensor outputs_of_all() {
    const NoGradGuard no_grad;
    return untracked::cast(boosted.model(data_input()), DType::f32);
  }
  Tensor outputs_with_averages() {
    const AveragedWeights weights = averaged_weights(boosted.optimizer, average);
    return outputs_of_all();
  }
  void step(const Tensor& input, const Tensor& target) {
    auto& [net, opt, loss_fn, data, lr] = boosted;
    opt.zero_grad();
    booster.backward(loss_fn(net(input), target), opt);
    opt.clip_grad_by_norm(0.5);
    const StepReport report = opt.step();
    average.update(report);
    lr.step(report);
  }
  void steps(int count) {
    while (count > 0)
      for (auto& batch : boosted.dataloader) {
        step(batch.image, batch.label);
        if (--count == 0) return;
      }
  }
};

Training make(const Kind& kind, const Choice<Plugin>& plugin, int64_t batch_size) {
  manual_seed(7);
  Booster booster({.plugin = plugin, .mixed_precision = precision_of(kind.strategy)});
  Model model = Sequential{Linear(features, 7), LayerNorm(7), Tanh(), Linear(7, outputs)};
  Optimizer optimizer = optimizer_of(kind.optimizer, model);
  auto loader = booster.prepare_dataloader(TensorDataset(data_input(), data_target()),
                                           {.batch_size = batch_size, .shuffle = true,
                                            .workers = 0, .seed = order_seed});
  Boosted boosted =
      booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
  return {std::move(booster), boosted};
}

Training alone(const Kind& kind, int64_t batch_size) {
  return make(kind, SinglePlugin({.on_every_rank = true}), batch_size);
}

Training spread(const Kind& kind, const Link& link, const Group& group) {
  const int64_t stage = link.plugin == "zero 2" ? 2 : 1;
  const double small = 20.0 / (1 << 20);  // so that there are several buckets
  if (link.plugin == "torch_ddp") return make(kind, TorchDDPPlugin({}, group), link.batch_size);
  if (link.plugin == "fsdp") return make(kind, FsdpPlugin({}, group), link.batch_size);
  if (link.plugin == "single") return alone(kind, link.batch_size);
  return make(kind, LowLevelZeroPlugin({.stage = stage, .reduce_bucket_size_in_m = small}, group),
              link.batch_size);
}

void ignore(const std::string&) {}

CheckpointContents newest(const std::filesystem::path& root) {
  return load_checkpoint(*latest_checkpoint(root, ignore));
}

std::string bytes_of(const TensorMap& tensors) {
  std::string all;
  for (const auto& [name, tensor] : tensors)
    all += name + tensor.shape().to_string() + name_of(tensor.dtype()) +
           std::string(static_cast<const char*>(tensor.data()),
                       static_cast<size_t>(tensor.bytes()));
  return all;
}

// What a save right after a resume must have in common with what was resumed.
std::string all_of(const CheckpointContents& contents) {
  nlohmann::json numbers = contents.state;
  for (const char* layout : {"plugin", "random", "loader"}) numbers.erase(layout);
  return bytes_of(contents.model) + bytes_of(contents.optimizer) + bytes_of(contents.precision) +
         numbers.dump();
}

// The same batches, from the one order that all samplers are made of.
struct PlainLoop {
  Training training;
  Tensor input = data_input(), target = data_target();
  uint64_t epoch = 0;
  int64_t done = 0;  // samples of the epoch

  void step(int64_t size) {
    if (done == samples) ++epoch, done = 0;
    const auto order = RandomSampler(samples, order_seed).indices(epoch);
    std::vector<float> x;
    std::vector<int64_t> y;
    const auto all_x = input.to_vector<float>();
    const auto all_y = target.to_vector<int64_t>();
    for (int64_t i = done; i < done + size; ++i) {
      const int64_t at = order[static_cast<size_t>(i)];
      x.insert(x.end(), &all_x[static_cast<size_t>(at * features)],
               &all_x[static_cast<size_t>(at * features)] + features);
      y.push_back(all_y[static_cast<size_t>(at)]);
    }
    done += size;
    training.step(from_vector(x, {size, features}), from_vector(y, {size}));
  }
};

double norm(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// How far a tensor is from what it should be, relative to what training changed of it, beyond what
// 16 bits round.
double distance(const Tensor& got, const Tensor& want, const Tensor& start) {
  const auto to = want.to_vector<double>();
  const std::vector<double> zero(to.size());
  const double rounding = want.dtype() == DType::bf16 ? 0x1p-8 : 0;
  const double apart = norm(got.to_vector<double>(), to) - rounding * norm(to, zero);
  return std::max(apart, 0.0) /
         (norm(to, start.defined() ? start.to_vector<double>() : zero) + 1e-12);
}

struct Chain {
  Kind kind;
  World world;
  std::filesystem::path root;
  std::unique_ptr<PlainLoop> plain;  // on rank 0
  int64_t step = 0;
  Tensor averaged = {};  // outputs with averages, behind the last link, where this rank was in it
  int last_rank = 0;     // one that was

  // A program run: resumes, trains, saves, and is gone.
  void run(const Link& link) {
    const bool here = std::ranges::count(link.ranks, world.rank) > 0;
    last_rank = link.ranks.front();
    if (here) {
      const Group group = world.group().subgroup(link.ranks);
      Training training = spread(kind, link, group);
      const SaveOptions options = {.size_per_shard = link.shards ? 100.0 / (1 << 20) : 1024};
      if (const auto resumed = resume_training(root, training.boosted, ignore)) {
        CHECK(resumed->step == step);
        check_same(training, group, options);
      }
      training.steps(link.steps);
      check_averages(training);
      const Progress progress = {.step = step + link.steps};
      if (link.async) {
        PendingSave saving = save_training_async(root, training.boosted, progress, options);
        training.steps(2);  // of these nothing is saved
        saving.wait();
      } else {
        save_training(root, training.boosted, progress, options);
      }
    }
    step += link.steps;
    if (plain)
      for (int i = 0; i < link.steps; ++i) plain->step(link.samples_per_step());
    world.group().barrier();
  }

  void check_same(Training& training, const Group& group, const SaveOptions& options) {
    const auto again = root.string() + "-again";
    save_training(again, training.boosted, {.step = step}, options);
    const bool same = group.rank() != 0 || all_of(newest(again)) == all_of(newest(root));
    CHECK(same);
  }

  // Evaluating with averages leaves no trace.
  void check_averages(Training& training) {
    const auto before = training.outputs_of_all().to_vector<float>();
    averaged = training.outputs_with_averages();
    CHECK(training.outputs_of_all().to_vector<float>() == before);
  }

  void compare(double tolerance) {
    if (averaged.defined()) world.group().broadcast(averaged, last_rank);
    else world.group().broadcast(averaged = empty({samples, outputs}), last_rank);
    if (world.rank == 0) {
      CHECK(distance(averaged, plain->training.outputs_with_averages(), Tensor()) <= tolerance);
      const CheckpointContents got = newest(root);
      StateDict start;
      for (const auto& [name, tensor] : alone(kind, 1).boosted.model.unwrap().state_dict())
        start.push_back({name, tensor});
      for (const auto& [name, tensor] : plain->training.boosted.model.unwrap().state_dict()) {
        CAPTURE(name);
        const auto from = std::ranges::find(start, name, &NamedTensor::name)->tensor;
        CHECK(distance(got.model.at(name), tensor, from) <= tolerance);
      }
      for (const auto& [name, tensor] :
           plain->training.boosted.optimizer.unwrap().state_dict().tensors) {
        CAPTURE(name);
        Tensor from;
        for (const auto& [weight, at] : start)
          if (name == weight + ".master" || name == weight + ".average") from = at;
        CHECK(distance(got.optimizer.at(name), tensor, from) <= tolerance);
      }
    }
    world.group().barrier();
  }
};

void play(Dice& dice, const World& world, const std::filesystem::path& root) {
  const Kind kind = {dice.of<const char*>({"fp32", "bf16 masters", "fp16"}),
                     dice.of<const char*>({"adamw", "sgd", "lamb", "rmsprop"})};
  Chain chain{kind, world, root, nullptr};
  if (world.rank == 0) chain.plain.reset(new PlainLoop{alone(kind, 1)});
  int64_t done = 0;
  std::string told = fmt::format("{} {}", kind.strategy, kind.optimizer);
  for (int i = 0, links = 3 + dice.below(3); i < links; ++i) {
    Link link = drawn_link(dice);
    while (done % link.samples_per_step() != 0) link = drawn_link(dice);
    done = (done + link.steps * link.samples_per_step()) % samples;
    told += fmt::format(" | {} x {} of {}, {} steps", link.plugin, link.ranks.size(),
                        link.batch_size, link.steps);
    INFO(told);
    chain.run(link);
  }
  INFO(told);
  chain.compare(std::string(kind.strategy) == "fp32" ? 1e-5 : 2e-2);
}

// Saves a position in the middle of the first epoch on these ranks.
void save_at(const std::filesystem::path& root, const World& world, const Link& link) {
  if (std::ranges::count(link.ranks, world.rank) > 0) {
    Training training = spread({"fp32", "sgd"}, link, world.group().subgroup(link.ranks));
    training.steps(link.steps);
    save_training(root, training.boosted, {.step = link.steps});
  }
  world.group().barrier();
}

std::string refusal(const std::filesystem::path& root, Training& training) {
  try {
    resume_training(root, training.boosted, ignore);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void run_ranks(const char* test_case, double seconds = 120) {
  const TemporaryFolder root;
  CHECK(failures(Ranks(test_case, 4, {{"TEST_ROOT", root.path().string()}}).wait(seconds)) == "");
}

std::filesystem::path test_root() { return std::getenv("TEST_ROOT"); }

}  // namespace

TEST_CASE("rank: chains of layouts" * doctest::skip()) {
  const World world = launch_from_env();
  const char* count = std::getenv("CHAINS");
  const char* first = std::getenv("FIRST_CHAIN");
  const int begin = first ? std::atoi(first) : 0;
  for (int chain = begin; chain < begin + (count ? std::atoi(count) : 24); ++chain) {
    CAPTURE(chain);
    Dice dice{std::mt19937(static_cast<unsigned>(chain))};
    play(dice, world, test_root() / std::to_string(chain));
  }
}
TEST_CASE("a training that goes from layout to layout is that of one process") {
  run_ranks("rank: chains of layouts", 600);
}

TEST_CASE("rank: positions" * doctest::skip()) {
  const World world = launch_from_env();
  const Kind kind = {"fp32", "sgd"};
  save_at(test_root(), world, {"torch_ddp", {0, 1, 2, 3}, 3, 2});  // 24 of 72 samples are done
  if (world.rank == 0) {
    Training fits = alone(kind, 8);
    std::vector<std::string> lines;
    resume_training(test_root(), fits.boosted,
                    [&](const std::string& line) { lines.push_back(line); });
    CHECK(fits.boosted.dataloader.state() == LoaderState{0, 3});
    CHECK(lines ==
          std::vector<std::string>{
              "plugin: changed from torch_ddp to single; the new value counts",
              "number of ranks: changed from 4 to 1; the new value counts",
              "batch_size: changed from 3 to 8; the new value counts"});
    Training odd = alone(kind, 9);
    CHECK(refusal(test_root(), odd) ==
          (test_root() / "step-000000002").string() +
              ": 24 samples of the epoch are done, no whole number of steps; got batch_size 9 on 1 "
              "ranks, 9 samples a step, want batch_size 2, 3, 4, 6, 8 or 12 on 1 ranks, or a "
              "checkpoint from between two epochs");
    CHECK(odd.boosted.dataloader.state() == LoaderState{0, 0});
  }
  if (world.rank < 2) {
    const Group two = world.group().subgroup({0, 1});
    Training odd = spread(kind, {"zero 1", {0, 1}, 8, 1}, two);
    CHECK_THROWS_WITH_AS(resume_training(test_root(), odd.boosted, ignore),
                         Contains("got batch_size 8 on 2 ranks, 16 samples a step, want batch_size "
                                  "1, 2, 3, 4, 6 or 12 on 2 ranks, 1 or 3 ranks of batch_size 8, "
                                  "or a checkpoint from between two epochs"),
                         Error);
  }
}
TEST_CASE("a position in the data is one of every layout whose steps it is a whole number of") {
  run_ranks("rank: positions");
}
