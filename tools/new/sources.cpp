#include "tools/new/project_files.h"

namespace booster {

std::vector<ProjectFile> project_sources() {
  return {{"src/model.h", R"(// The model.
#pragma once

#include <booster/booster.h>

// Takes points (n, 2); returns logits (n, 2).
class Classifier : public booster::Module {
 public:
  explicit Classifier(int64_t width);
  booster::Linear& hidden;
  booster::Linear& head;

 private:
  booster::Tensor forward(const booster::Tensor& x) override;
};
)"},
          {"src/model.cpp", R"(#include "model.h"

using namespace booster;

Classifier::Classifier(int64_t width)
    : Module("Classifier"),
      hidden(add<Linear>("hidden", 2, width)),
      head(add<Linear>("head", width, 2)) {}

Tensor Classifier::forward(const Tensor& x) { return head(relu(hidden(x))); }
)"},
          {"src/data.h", R"(// The samples.
#pragma once

#include <booster/booster.h>

// Returns n points in the square from -1 to 1. Their class is 1 where both coordinates have the
// same sign, else 0.
booster::TensorDataset make_points(int64_t n, uint64_t seed);
)"},
          {"src/data.cpp", R"(#include "data.h"

using namespace booster;

TensorDataset make_points(int64_t n, uint64_t seed) {
  Generator generator(seed);
  const Tensor points = uniform({n, 2}, -1, 1, {}, generator);
  const Tensor agree = greater(select(points, 1, 0) * select(points, 1, 1), 0);
  return TensorDataset(points, cast(agree, DType::i64));
}
)"},
          {"src/training.h", R"(// The training: its options in a config, and its loop.
#pragma once

#include <booster/booster.h>

// Returns the section `train` of the config.
booster::ProgramConfig program_config();

// Trains as the config says, from the newest checkpoint in train.output_dir if there is one.
// Returns the accuracy on unseen points. All ranks call it.
double train(const booster::Config& config);
)"},
          {"src/training.cpp", R"(#include "training.h"

#include "data.h"
#include "model.h"

#include <fmt/format.h>

#include <cstdio>

using namespace booster;

ProgramConfig program_config() {
  return {.sections = {
              {.name = "train",
               .description = "length and output of the training",
               .options = {
                   integer_option("epochs", 5, between(1, 1'000'000), "passes over the data"),
                   integer_option("batch_size", 64, between(1, 1'000'000), "samples of a step"),
                   integer_option("width", 64, between(1, 100'000), "features of the hidden layer"),
                   integer_option("seed", 42, at_least(0), "of weights, data and their order"),
                   path_option("output_dir", "out", "folder of the checkpoints")}}}};
}

namespace {

double accuracy_of(BoostedModel& net, DataLoader& data, const Group& group) {
  const NoGradGuard no_grad;
  net.eval();
  MeanMetric accuracy(data);
  for (auto& [point, label] : data) accuracy.add(top_k_correct(net(point), label));
  net.train();
  return accuracy.value(group);
}

}  // namespace

double train(const Config& config) {
  const World world = launch_from_env();
  const auto seed = static_cast<uint64_t>(config.get<int64_t>("train.seed"));
  const auto epochs = config.get<int64_t>("train.epochs");
  const auto batch_size = config.get<int64_t>("train.batch_size");
  const auto folder = config.get<std::string>("train.output_dir");
  const Device device = device_of(config);
  manual_seed(seed);

  Booster booster = Booster::from_config(config);
  Model model = Classifier(config.get<int64_t>("train.width"));
  model->to(device);
  auto optimizer = make_optimizer(config, model);
  auto samples = booster.prepare_dataloader(
      make_points(4096, seed),
      {.batch_size = batch_size, .shuffle = true, .drop_last = true, .device = device});
  auto unseen = booster.prepare_dataloader(make_points(1024, seed + 1),
                                           {.batch_size = batch_size, .device = device});
  auto scheduler = make_lr_scheduler(config, optimizer, epochs * samples.size());
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), samples, scheduler);
  auto& [net, opt, loss_fn, data, lr] = boosted;

  const auto print_line = [&](const std::string& line) {
    if (world.rank == 0) fmt::print("{}\n", line);
  };
  int64_t step = 0, epoch = 0;
  if (const auto resumed = resume_training(folder, boosted, print_line)) {
    step = resumed->step;
    epoch = resumed->epoch;
  }
  double accuracy = accuracy_of(net, unseen, world.group());
  while (epoch < epochs) {
    for (auto& [point, label] : data) {
      opt.zero_grad();
      auto loss = loss_fn(net(point), label);
      booster.backward(loss, opt);
      lr.step(opt.step());
      ++step;
    }
    ++epoch;
    save_training(folder, boosted, {.step = step});
    accuracy = accuracy_of(net, unseen, world.group());
    print_line(fmt::format("epoch {}: accuracy {:.1f} %", epoch, 100 * accuracy));
  }
  return accuracy;
}
)"},
          {"src/main.cpp", R"(// Trains the model.
//   build/train --config config.json --set train.epochs=10
#include "training.h"

#include <fmt/format.h>

#include <cstdio>

int main(int argc, char** argv) {
  const booster::Config config = booster::Config::from_args(argc, argv, program_config());
  const double accuracy = train(config);
  if (booster::launch_from_env().rank == 0) fmt::print("accuracy {:.1f} %\n", 100 * accuracy);
}
)"},
          {"tests/model_test.cpp", R"(// Checks the training. An error ends the program with code 1.
#include "data.h"
#include "model.h"
#include "training.h"

#include <filesystem>

using namespace booster;

namespace {

const std::filesystem::path folder =
    std::filesystem::temp_directory_path() / ("@NAME@-" + std::to_string(::getpid()));

Config short_config() {
  return Config::from_text(R"json({"train": {"epochs": 2, "width": 32}})json", "test",
                           {"train.output_dir=" + folder.string(), "optimizer.name=adamw",
                            "optimizer.lr=0.01"},
                           program_config());
}

void it_learns_and_resumes() {
  const double accuracy = train(short_config());
  check(accuracy > 0.9, "accuracy is too low; got {}, want more than 0.9", accuracy);
  const double again = train(short_config());  // there is nothing left to train
  check(again == accuracy, "the checkpoint has another accuracy; got {}, want {}", again, accuracy);
}

void a_predictor_loads_the_checkpoint() {
  const Predictor predict(Classifier(32), folder);
  const auto [points, classes] = std::pair(from_vector<float>({0.5f, 0.5f, -0.5f, 0.5f}, {2, 2}),
                                           from_vector<int64_t>({1, 0}, {2}));
  const Tensor wrong = sum(cast(not_equal(argmax(predict(points), -1), classes), DType::i64));
  check(wrong.item() == 0, "the predictor is wrong about {} of 2 points", wrong.item());
}

}  // namespace

int main() {
  report_uncaught_errors();
  std::filesystem::remove_all(folder);
  it_learns_and_resumes();
  a_predictor_loads_the_checkpoint();
  std::filesystem::remove_all(folder);
}
)"}};
}

}  // namespace booster
