// The two networks that PaddlePaddle's guides use to measure mixed precision, at every level:
//   build/examples/simple_net                                            3 x Linear 4096 with ReLU
//   build/examples/simple_net --network linear                           9 x Linear 8192
//   build/examples/simple_net --width 512 --batch 64 --batches 10        smaller
//   build/examples/simple_net --strategy '"bf16"' --strategy '{"name": "fp8"}'
//   build/examples/simple_net --device cuda                              on the first GPU
// Strategies are values of booster.mixed_precision in a config; the loop does not depend on them.
#include <booster/booster.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <optional>

using namespace booster;

namespace {

using Clock = std::chrono::steady_clock;

struct Strategy {
  std::string title;
  Config config;

  // `json` is a value of booster.mixed_precision in a config.
  Strategy(std::string title, const std::string& json)
      : title(std::move(title)),
        config(Config::from_text("{\"booster\": {\"mixed_precision\": " + json + "}}", json)) {}
};

constexpr int64_t not_given = std::numeric_limits<int64_t>::min();

struct Settings {
  std::string network = "relu", dtype = "float16", device = "cpu";
  int64_t layers = not_given, width = not_given, batch = not_given, batches = not_given,
          epochs = not_given, accumulate = 10;
  double lr = 1e-4;
  std::vector<std::string> strategies = {};

  bool relu() const { return network == "relu"; }
  Device where() const { return device == "cuda" ? Device::cuda() : Device(); }
  // Sets options that were not given to the guides' values.
  void fill_in() {
    const auto fill = [&](int64_t& size, int64_t of_relu, int64_t of_linear) {
      if (size == not_given) size = relu() ? of_relu : of_linear;
    };
    fill(layers, 3, 9);
    fill(width, 4096, 8192);
    fill(batch, 512, 2048);
    fill(batches, 50, 10);
    fill(epochs, 5, 2);
  }
};

struct Result {
  double seconds_per_batch, loss;
};

// Xavier's uniform distribution and no bias, like Paddle's initial values.
Model make_network(const Settings& settings) {
  manual_seed(100);
  Sequential network;
  for (int64_t i = 0; i < settings.layers; ++i) {
    if (i > 0 && settings.relu()) network.append(ReLU());
    network.append(Linear(settings.width, settings.width));
  }
  const Model model(std::move(network));
  model->to(settings.where());
  for (const auto& parameter : model.parameters()) {
    if (parameter.tensor.ndim() == 2) init::xavier_uniform(parameter.tensor);
    if (parameter.tensor.ndim() == 1) init::zeros(parameter.tensor);
  }
  return model;
}

// Makes normal noise for one network, uniform values in [0, 1) for the other.
std::vector<Batch> make_batches(const Settings& settings) {
  manual_seed(101);
  const Shape shape = {settings.batch, settings.width};
  const auto draw = [&] {
    return (settings.relu() ? normal(shape) : uniform(shape, 0, 1)).to(settings.where());
  };
  std::vector<Batch> batches;
  for (int64_t i = 0; i < settings.batches; ++i) batches.push_back({draw(), draw()});
  return batches;
}

Result train(const Settings& settings, const std::vector<Batch>& batches, const Config& config,
             int64_t accumulate) {
  Booster booster = Booster::from_config(config);
  const Model model = make_network(settings);
  auto [net, opt, loss_fn] =
      booster.boost(model, SGD(model.parameters(), {.lr = settings.lr}), MSELoss());
  Result result = {};
  auto start = Clock::now();
  const int64_t total = settings.epochs * settings.batches;
  opt.zero_grad();
  for (int64_t i = 0; i < total; ++i) {
    if (i == 1) start = Clock::now();  // leaves out the first batch, which also initialises
    const auto& [input, target] = batches[i % settings.batches];
    const Tensor loss = loss_fn(net(input), target);
    booster.backward(loss, opt);
    if ((i + 1) % accumulate == 0 || i + 1 == total) {
      opt.step();
      opt.zero_grad();
    }
    result.loss = loss.item();
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  result.seconds_per_batch = seconds.count() / static_cast<double>(total - 1);
  return result;
}

std::vector<Strategy> strategies_of(const Settings& settings) {
  const auto paddle = [&](const char* rest) {
    return fmt::format(R"({{"name": "fp16_paddle", "dtype": "{}", {}}})", settings.dtype, rest);
  };
  std::vector<Strategy> strategies = {
      {"fp32", R"("fp32")"},
      {"O1", paddle(R"("level": "O1", "init_loss_scaling": 1024)")},
      {"O2, f32 masters", paddle(R"("level": "O2", "init_loss_scaling": 1024)")},
      {"O2, pure", paddle(R"("level": "O2", "init_loss_scaling": 1024, "master_weight": false)")}};
  for (const auto& json : settings.strategies) strategies.emplace_back(json, json);
  return strategies;
}

// Prints the results; compares the other strategies with the first.
void print_table(const Settings& settings, const std::vector<Strategy>& strategies,
                 const std::vector<Batch>& batches, int64_t accumulate) {
  fmt::print(
      "\n{:<24}{:>14}{:>10}{:>14}{:>14}\n",
      accumulate == 1 ? "a step per batch" : fmt::format("a step per {} batches", accumulate),
      "ms per batch", "speed-up", "loss", "over fp32's");
  std::optional<Result> first;
  for (const auto& [title, config] : strategies) {
    const Result result = train(settings, batches, config, accumulate);
    if (!first) first = result;
    fmt::print("{:<24}{:>14.2f}{:>9.2f}x{:>14.7f}{:>13.3f}%\n", title,
               1e3 * result.seconds_per_batch, first->seconds_per_batch / result.seconds_per_batch,
               result.loss, 100 * (result.loss / first->loss - 1));
  }
}

void parse(Settings& settings, int argc, char** argv) {
  CLI::App app{"Time and loss of large linear layers in every level of mixed precision.",
               "simple_net"};
  app.add_option("--network", settings.network, "relu: with ReLU between; linear: without")
      ->check(CLI::IsMember({"relu", "linear"}));
  app.add_option("--layers", settings.layers, "linear layers (3, 9)");
  app.add_option("--width", settings.width, "features of every layer (4096, 8192)");
  app.add_option("--batch", settings.batch, "rows of a batch (512, 2048)");
  app.add_option("--batches", settings.batches, "different batches (50, 10)");
  app.add_option("--epochs", settings.epochs, "passes over them (5, 2)");
  app.add_option("--accumulate", settings.accumulate, "batches per step in the second table (10)");
  app.add_option("--dtype", settings.dtype, "of the 16-bit levels: float16 or bfloat16");
  app.add_option("--device", settings.device, "cpu, or cuda: the first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--lr", settings.lr, "learning rate (0.0001)");
  app.add_option("--strategy", settings.strategies, "one more row, as a config has it")
      ->allow_extra_args(false);
  if (!parse_command_line(app, argc, argv)) std::exit(0);
  settings.fill_in();
  for (const int64_t n : {settings.layers, settings.width, settings.batch, settings.accumulate,
                          settings.batches * settings.epochs - 1})
    check(n >= 1, "simple_net: sizes must be positive, and at least two batches; got {}", n);
}

}  // namespace

int main(int argc, char** argv) {
  report_uncaught_errors();
  Settings settings;
  parse(settings, argc, argv);
  fmt::print("{} x Linear {}{}, {} rows, {} batches, SGD {}, 16 bits are {}\n", settings.layers,
             settings.width, settings.relu() ? " with ReLU" : "", settings.batch,
             settings.batches * settings.epochs, settings.lr, settings.dtype);
  const auto strategies = strategies_of(settings);  // throws for a wrong one before any training
  const auto batches = make_batches(settings);
  print_table(settings, strategies, batches, 1);
  if (settings.accumulate > 1) print_table(settings, strategies, batches, settings.accumulate);
}
