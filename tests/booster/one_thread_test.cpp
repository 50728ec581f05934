// A boosted model belongs to one thread at a time.
#include "booster/booster.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace booster;

namespace {

// A gate at which one thread waits until another opens it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

}  // namespace

TEST_CASE("a second thread that calls a boosted model meanwhile gets an error, the first goes on") {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8", "fp16_apex"}) {
    CAPTURE(precision);
    const Model model = Sequential({Linear(16, 16), ReLU(), Linear(16, 16)});
    Gate inside, tried;
    const int hook = model->register_forward_pre_hook([&](Module&, const Tensor&) {
      inside.open();
      tried.wait();
      return Tensor();
    });
    Booster booster({.mixed_precision = precision});
    auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    std::string first = "not run";
    std::thread other([&, net = net] { first = error_of([&] { net(ones({2, 16})); }); });
    inside.wait();
    const std::string wanted = "want one thread at a time";
    CHECK(contains(error_of([&] { net(ones({2, 16})); }), wanted));
    {
      const NoGradGuard no_grad;
      CHECK(contains(error_of([&] { net(ones({2, 16})); }), wanted));
    }
    CHECK(contains(error_of([&] { optimizer.step(); }), wanted));
    CHECK(contains(error_of([&] { optimizer.zero_grad(); }), wanted));
    tried.open();
    other.join();
    CHECK(first == "");
    model->remove_hook(hook);
  }
}

TEST_CASE("threads take turns with a boosted model, and each may have one of its own") {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    CAPTURE(precision);
    Booster booster({.mixed_precision = precision});
    const Model model = Linear(16, 16);
    auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    for (int turn = 0; turn < 3; ++turn) {
      std::string error = "not run";
      std::thread([&, net = net, optimizer = optimizer]() mutable {
        error = error_of([&] {
          booster.backward(sum(net(ones({2, 16}))), optimizer);
          optimizer.step();
          optimizer.zero_grad();
        });
      }).join();
      CHECK(error == "");
    }
    std::string errors[2];
    std::thread threads[2];
    for (int i = 0; i < 2; ++i)
      threads[i] = std::thread([&errors, i, precision] {
        errors[i] = error_of([precision] {
          Booster own({.mixed_precision = precision});
          const Model part = Linear(16, 16);
          auto [its_net, its_optimizer] = own.boost(part, SGD(part.parameters(), {.lr = 0.1}));
          for (int step = 0; step < 20; ++step) {
            own.backward(sum(its_net(ones({2, 16}))), its_optimizer);
            its_optimizer.step();
            its_optimizer.zero_grad();
          }
        });
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("a call that throws leaves the boosted model to other threads") {
  const Model model = Linear(16, 16);
  Booster booster;
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  CHECK(error_of([&] { net(ones({2, 15})); }) != "");
  std::string error = "not run";
  std::thread([&, net = net] { error = error_of([&] { net(ones({2, 16})); }); }).join();
  CHECK(error == "");
}
