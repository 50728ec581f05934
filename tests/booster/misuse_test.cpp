// Handles that are used where they cannot work: each call is an error that names it, never a crash
// or a hang.
#include "booster/booster.h"
#include "core/optim/update_rule.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace booster;

namespace {

TensorDataset numbers(int64_t n) {
  return TensorDataset(arange(n, {.dtype = DType::f32}), arange(n));
}

// Its samples arrive once the gate is open.
class GatedSet : public Dataset {
 public:
  int64_t size() const override { return 8; }
  Sample load(int64_t index, RandomStream&) const override {
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    return Sample(full({1}, static_cast<double>(index)), int64_t{0});
  }
  void open() const {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_until_asked() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool asked_ = false, is_open_ = false;
};

// Returns how a process ended, or that it still ran after `seconds`.
std::string end_of(pid_t pid, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return "hangs";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                           : fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace

TEST_CASE("a handle that was moved from is an error at its calls") {
  const Model model = Linear(2, 2);
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  LRScheduler scheduler = StepLR(optimizer, {.step_size = 1});
  DataLoader loader(numbers(4), {.batch_size = 2});
  const Optimizer other = std::move(optimizer);
  const LRScheduler other_scheduler = std::move(scheduler);
  const DataLoader other_loader = std::move(loader);
  CHECK(contains(error_of([&] { optimizer.step(); }), "optimizer.step: this optimizer was moved"));
  CHECK(contains(error_of([&] { optimizer.step([] { return Tensor(); }); }), "optimizer.step: "));
  CHECK(contains(error_of([&] { optimizer.zero_grad(); }), "optimizer.zero_grad: "));
  CHECK(contains(error_of([&] { optimizer.clip_grad_by_norm(1); }), "this optimizer was moved"));
  CHECK(contains(error_of([&] { optimizer.lr(); }), "this optimizer was moved"));
  CHECK(contains(error_of([&] { scheduler.step(); }), "lr_scheduler.step: this lr_scheduler was"));
  CHECK(contains(error_of([&] { loader.begin(); }), "DataLoader.begin: this DataLoader was moved"));
  CHECK(contains(error_of([&] { loader.state(); }), "this DataLoader was moved from"));

  Booster booster;
  auto [net, opt] = booster.boost(model, other);
  const BoostedModel other_net = std::move(net);
  const BoostedOptimizer other_opt = std::move(opt);
  CHECK(contains(error_of([&] { net(ones({1, 2})); }), "model: this boosted model was moved from"));
  CHECK(
      contains(error_of([&] { opt.step(); }), "optimizer.step: this boosted optimizer was moved"));
  CHECK(contains(error_of([&] { opt.zero_grad(); }), "optimizer.zero_grad: "));
  CHECK(contains(error_of([&] { opt.clip_grad_by_norm(1); }), "boosted optimizer was moved from"));
  CHECK(contains(error_of([&] { booster.backward(ones({}), opt); }), "was moved from"));
}

TEST_CASE("a missing data set, rule or schedule is an error where it is given") {
  const std::shared_ptr<const Dataset> none;
  const Booster booster;
  CHECK(contains(error_of([&] { DataLoader(none, {}); }), "DataLoader: no data set; got null"));
  CHECK(contains(error_of([&] { booster.prepare_dataloader(none, {}); }), "no data set; got null"));
  CHECK(contains(error_of([&] { Subset(none, {0}); }), "Subset: no data set; got null"));
  CHECK(contains(error_of([&] { random_split(none, {1.0}); }), "random_split: no data set"));
  const Model model = Linear(2, 2);
  CHECK(contains(error_of([&] { Optimizer(nullptr, model.parameters(), {}); }), "no update rule"));
  const Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  CHECK(contains(error_of([&] { LRScheduler(optimizer, nullptr); }), "no schedule; got null"));
}

TEST_CASE("an iterator goes on after its loader is gone") {
  for (const int workers : {0, 2}) {
    auto loader = std::make_unique<DataLoader>(
        numbers(6), DataLoaderOptions{.batch_size = 2, .workers = workers});
    auto batch = loader->begin();
    loader.reset();
    ++batch;
    CHECK(batch->label.to_vector<int64_t>() == std::vector<int64_t>{2, 3});
    ++batch;
    ++batch;
    CHECK(batch == DataLoader::End{});
  }
  DataLoader::Iterator none;
  CHECK(contains(error_of([&] { ++none; }), "an iterator without a loader"));
}

TEST_CASE("a second consumer of a loader gets an error, the first goes on") {
  for (const int workers : {0, 2}) {
    const auto set = std::make_shared<GatedSet>();
    DataLoader loader(set, {.batch_size = 4, .workers = workers});
    std::string first = "not run";
    int batches = 0;
    std::thread consumer([&] {
      first = error_of([&] {
        for (auto& batch : loader) batches += static_cast<int>(batch.image.size(0)) / 4;
      });
    });
    set->wait_until_asked();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it waits for the batch
    const std::string want = "two threads call the same loader at once";
    CHECK(contains(error_of([&] { loader.begin(); }),
                   "DataLoader: " + want + "; got a call of begin()"));
    CHECK(contains(error_of([&] { loader.prepare(); }),
                   "DataLoader: " + want + "; got a call of prepare()"));
    set->open();
    consumer.join();
    CHECK(first == "");
    CHECK(batches == 2);
  }
}

// The child ends by returning from here and then from main.
TEST_CASE("rank: forks" * doctest::skip()) {
  const World world = launch_from_env();
  const Model model = Sequential({Linear(4, 8), ReLU(), Linear(8, 4)});
  Booster booster({.plugin = std::getenv("TEST_PLUGIN")});
  const Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  const Criterion loss = [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); };
  auto boosted = booster.boost(model, optimizer, loss,
                               booster.prepare_dataloader(TensorDataset(ones({8, 4}), ones({8, 4})),
                                                          {.batch_size = 2, .workers = 2}),
                               StepLR(optimizer, {.step_size = 1}));
  auto& [net, opt, loss_fn, data, lr] = boosted;
  const auto step = [&](const Batch& batch) {
    booster.backward(loss_fn(net(batch.image), batch.label), opt);
    opt.step();
    opt.zero_grad();
  };
  auto batch = data.begin();
  step(*batch);
  const pid_t child = ::fork();
  if (child == 0) {
    CHECK(contains(error_of([&] { ++batch; }), "operator++ is called in a child of fork"));
    CHECK(contains(error_of([&] { data.begin(); }), "begin() is called in a child of fork"));
    std::vector<int64_t> number = {1};
    if (world.size > 1)
      CHECK(contains(error_of([&] { world.group().all_reduce(number); }),
                     "all_reduce: is called in a child of fork"));
    return;
  }
  CHECK(end_of(child, 30) == "exit code 0");
  for (; batch != data.end(); ++batch) step(*batch);
  std::vector<int64_t> number = {1};
  world.group().all_reduce(number);
  CHECK(number[0] == world.size);
}
TEST_CASE("a child of fork ends by itself, whatever was boosted, and its parent trains on") {
  for (const char* plugin : {"single", "torch_ddp", "low_level_zero", "fsdp"})
    for (const int ranks : {1, 2}) {
      if (ranks == 2 && std::string(plugin) == "single") continue;
      CAPTURE(plugin);
      CAPTURE(ranks);
      CHECK(failures(Ranks("rank: forks", ranks, {{"TEST_PLUGIN", plugin}}).wait(120)) == "");
    }
}
