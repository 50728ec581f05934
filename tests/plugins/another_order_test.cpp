// Ranks that use equal layers in different orders make calls that look alike. The calls' purpose
// distinguishes them, so ranks throw an error that names both, instead of mixing unrelated values.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "parallel/mesh.h"
#include "plugins/fsdp.h"
#include "plugins/low_level_zero.h"
#include "plugins/torch_ddp.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <memory>

using namespace booster;

namespace {

// Returns layers of equal size; each rank may use them in another order.
Sequential experts(int count) {
  Sequential model;
  for (int i = 0; i < count; ++i) model.append(Linear(4, 4));
  return model;
}

void take_over(Plugin& plugin, const Model& model, const Optimizer& optimizer) {
  plugin.shard(model, optimizer);
  plugin.prepare(model, optimizer);
}

void train_with(Plugin& plugin, Module& expert) {
  PassScope forward = plugin.begin({.pass = Pass::forward});
  const Tensor y = sum(expert(ones({2, 4})));
  forward.end();
  PassScope back = plugin.begin({.pass = Pass::backward});
  backward(y);
  back.end();
}

// Runs two passes, each with another expert; rank 1 begins with the second unless `same_order`.
std::string error_in_order(Plugin& plugin, bool same_order) {
  Sequential chain = experts(2);
  Module* const each[] = {&chain[0], &chain[1]};
  const Model model(std::move(chain));
  SGD optimizer(model.parameters(), {.lr = 0.1});
  take_over(plugin, model, optimizer);
  const int first = same_order ? 0 : launch_from_env().rank;
  return error_of([&] {
    for (const int i : {first, 1 - first}) train_with(plugin, *each[i]);
  });
}

void check_names_both(const std::string& error, const std::string& a, const std::string& b) {
  INFO(error);
  CHECK(error.find("the ranks call different collectives") != error.npos);
  CHECK(error.find(a) != error.npos);
  CHECK(error.find(b) != error.npos);
}

constexpr double each_alone = 1e-5;  // as a bucket size: no two layers share one

}  // namespace

TEST_CASE("rank: experts in one order" * doctest::skip()) {
  TorchDdp ddp({.bucket_cap_mb = each_alone});
  CHECK(error_in_order(ddp, true) == "");
  LowLevelZero zero({.reduce_bucket_size_in_m = each_alone});
  CHECK(error_in_order(zero, true) == "");
  Fsdp fsdp;
  CHECK(error_in_order(fsdp, true) == "");
}
TEST_CASE("rank: experts by torch_ddp" * doctest::skip()) {
  TorchDdp plugin({.bucket_cap_mb = each_alone});
  check_names_both(error_in_order(plugin, false), ", bucket 0)", ", bucket 2)");
}
TEST_CASE("rank: experts by low_level_zero" * doctest::skip()) {
  LowLevelZero plugin({.reduce_bucket_size_in_m = each_alone});
  check_names_both(error_in_order(plugin, false), ", bucket 0)", ", bucket 1)");
}
TEST_CASE("rank: blocks by fsdp" * doctest::skip()) {
  Fsdp plugin({.prefetch = 0});
  check_names_both(error_in_order(plugin, false), ", unit 1)", ", unit 2)");
}
TEST_CASE("rank: steps by low_level_zero" * doctest::skip()) {
  LowLevelZero plugin;
  Sequential chain = experts(2);
  Optimizers optimizers;
  for (int i = 0; i < 2; ++i) optimizers.push_back(SGD(chain[i].parameters(), {.lr = 0.1}));
  const Model model(std::move(chain));
  plugin.shard(model, optimizers);
  plugin.prepare(model, optimizers);
  train_with(plugin, model.module());
  const int mine = launch_from_env().rank;
  const std::string error = error_of([&] {
    for (const int i : {mine, 1 - mine}) plugin.sync_params(optimizers[static_cast<size_t>(i)]);
  });
  check_names_both(error, ", optimizer 0)", ", optimizer 1)");
}

// Runs two trainings of equal models; rank 1 begins with the second.
template <class P>
std::string error_of_two_trainings() {
  struct Training {
    P plugin;
    Model model;
    SGD optimizer;
    explicit Training(Sequential layers)
        : model(std::move(layers)), optimizer(model.parameters(), {.lr = 0.1}) {
      take_over(plugin, model, optimizer);
    }
  };
  Training first(experts(1)), second(experts(1));
  Training* both[] = {&first, &second};
  const int mine = launch_from_env().rank;
  return error_of([&] {
    for (const int i : {mine, 1 - mine}) train_with(both[i]->plugin, both[i]->model.module());
  });
}
TEST_CASE("rank: two trainings by torch_ddp" * doctest::skip()) {
  check_names_both(error_of_two_trainings<TorchDdp>(), ", bucket 0)", ", bucket 0 of training 2)");
}
TEST_CASE("rank: two trainings by low_level_zero" * doctest::skip()) {
  check_names_both(error_of_two_trainings<LowLevelZero>(), ", bucket 0)",
                   ", bucket 0 of training 2)");
}
TEST_CASE("rank: two trainings by fsdp" * doctest::skip()) {
  check_names_both(error_of_two_trainings<Fsdp>(), ", unit 1)", ", unit 1 of training 2)");
}

TEST_CASE("gradients and parameters of equal layers never mix, in whatever order ranks use them") {
  for (const char* name :
       {"experts in one order", "experts by torch_ddp", "experts by low_level_zero",
        "blocks by fsdp", "steps by low_level_zero", "two trainings by torch_ddp",
        "two trainings by low_level_zero", "two trainings by fsdp"}) {
    CAPTURE(name);
    CHECK(failures(Ranks(std::string("rank: ") + name, 2).wait(60)) == "");
  }
}
