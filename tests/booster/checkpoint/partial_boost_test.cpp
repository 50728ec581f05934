// Whatever boost returned can be saved and resumed: with or without criterion, loader, scheduler.
#include "booster/booster.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

const auto silent = [](const std::string&) {};

struct Parts {
  Booster booster{{.mixed_precision = "bf16"}};
  Model model = make();
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.1});
  CrossEntropyLoss criterion;
  DataLoader loader = booster.prepare_dataloader(
      TensorDataset(reshape(arange(24, {.dtype = DType::f32}), {8, 3}), arange(8) * 0),
      {.batch_size = 2, .shuffle = true});
  LRScheduler scheduler = StepLR(optimizer, {.step_size = 2, .gamma = 0.5});

  static Model make() {
    manual_seed(3);
    return Sequential{Linear(3, 4), ReLU(), Linear(4, 2)};
  }
};

template <class Result>
void step(Parts& parts, Result& result) {
  auto& net = std::get<0>(result);
  auto& opt = std::get<1>(result);
  const Tensor x = reshape(arange(6, {.dtype = DType::f32}), {2, 3});
  parts.booster.backward(sum(cast(net(x), DType::f32)), opt);
  parts.scheduler.step(opt.step());
  opt.zero_grad();
}

std::vector<float> weights(const Parts& parts) {
  std::vector<float> all;
  for (const auto& [name, tensor] : parts.model->state_dict())
    for (const float x : tensor.to_vector<float>()) all.push_back(x);
  return all;
}

// Trains four steps at once, and two steps, a save and two more in a new training. `boost` takes
// Parts and returns what their Booster gives.
template <class Boost>
void check_resumes(const Boost& boost) {
  const TemporaryFolder folder;
  Parts whole;
  auto all = boost(whole);
  for (int i = 0; i < 4; ++i) step(whole, all);
  {
    Parts parts;
    auto result = boost(parts);
    for (int i = 0; i < 2; ++i) step(parts, result);
    save_training(folder.path(), result, {.step = 2});
  }
  Parts parts;
  auto result = boost(parts);
  const auto resumed = resume_training(folder.path(), result, silent);
  REQUIRE(resumed);
  CHECK(resumed->step == 2);
  for (int i = 0; i < 2; ++i) step(parts, result);
  CHECK(weights(parts) == weights(whole));
}

}  // namespace

TEST_CASE("boost takes any of criterion, loader and scheduler, and its result resumes") {
  check_resumes([](Parts& p) { return p.booster.boost(p.model, p.optimizer, p.scheduler); });
  check_resumes([](Parts& p) {
    return p.booster.boost(p.model, p.optimizer, p.criterion, p.scheduler);
  });
  check_resumes([](Parts& p) {
    return p.booster.boost(p.model, p.optimizer, p.loader, p.scheduler);
  });
  check_resumes([](Parts& p) {
    return p.booster.boost(p.model, p.optimizer, p.scheduler, p.loader);
  });
}

TEST_CASE("a model and an optimizer alone resume, and so do three and four parts") {
  const TemporaryFolder folder;
  Parts first;
  auto pair = first.booster.boost(first.model, first.optimizer);
  save_training(folder.path() / "pair", pair, {.step = 5});
  Parts second;
  auto [net, opt, loss_fn, data] =
      second.booster.boost(second.model, second.optimizer, second.criterion, second.loader);
  const Tensor loss = loss_fn(net(zeros({2, 3})), zeros({2}, {.dtype = DType::i64}));
  CHECK(loss.dtype() == DType::f32);  // the criterion runs under the strategy
  CHECK(data.size() == 4);

  Parts third;
  auto other = third.booster.boost(third.model, third.optimizer);
  CHECK(resume_training(folder.path() / "pair", other, silent)->step == 5);
  Parts fourth;
  auto triple = fourth.booster.boost(fourth.model, fourth.optimizer, fourth.criterion);
  CHECK(resume_training(folder.path() / "pair", triple, silent)->step == 5);
  PendingSave saving = save_training_async(folder.path() / "triple", triple, {.step = 6});
  saving.wait();
  CHECK(resume_training(folder.path() / "triple", other, silent)->step == 6);
}

TEST_CASE("a training with a loader does not go on from one without") {
  const TemporaryFolder folder;
  Parts first, second;
  auto pair = first.booster.boost(first.model, first.optimizer);
  save_training(folder.path(), pair, {.step = 1});
  auto with_loader = second.booster.boost(second.model, second.optimizer, second.loader);
  CHECK(error_of([&] { resume_training(folder.path(), with_loader, silent); }) != "");
}
