// Options and parameters of optimizers and their groups, and their errors.
#include "core/autograd/functions.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "platform/error.h"
#include "tests/optim/leaf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace booster;

namespace {

template <class F>
void check_error(F&& f, const std::string& part) {
  try {
    f();
    FAIL("no error; want one with: " << part);
  } catch (const Error& error) {
    const bool found = std::string(error.what()).find(part) != std::string::npos;
    CHECK_MESSAGE(found, "got: " << error.what() << "; want: " << part);
  }
}

}  // namespace

TEST_CASE("groups override options, and only by legal names and values") {
  Tensor a = leaf({1}), b = leaf({1});
  auto optimizer = SGD({{{{"a", a}}}, {{{"b", b}}, {{"lr", 0.5}}}}, {.lr = 0.1});
  set_grad(a, {1});
  set_grad(b, {1});
  optimizer.step();
  CHECK(values_of(a)[0] == doctest::Approx(0.9));
  CHECK(values_of(b)[0] == doctest::Approx(0.5));
  CHECK(optimizer.group_count() == 2);
  CHECK(optimizer.lr(1) == 0.5);
  const ParameterGroups typo = {ParameterGroup{{{"a", a}}, {{"momentun", 0.5}}}};
  check_error([&] { SGD(typo, {}); }, "sgd: unknown option; got momentun");
  check_error([&] { SGD(typo, {}); }, "did you mean momentum?");
  check_error([&] { optimizer.set_option(0, "lr", -1); }, "sgd: lr is out of range; got -1");
  check_error([&] { optimizer.options(2); }, "parameter group out of range; got 2, want 0 to 1");
  optimizer.set_lr(0.25);
  CHECK(optimizer.lr(0) == 0.25);
  CHECK(optimizer.lr(1) == 0.25);
}

TEST_CASE("a group takes betas as the optimizer itself does") {
  Tensor a = leaf({1}), b = leaf({1}), c = leaf({1});
  const AdamW optimizer({{{{"a", a}}},
                         {{{"b", b}}, {{"lr", 0.5}, {"betas", {0.8, 0.9}}}},
                         {{{"c", c}}, {{"betas", std::pair(0.7, 0.95)}, {"eps", 1e-6}}}},
                        {.betas = {0.85, 0.99}});
  const auto betas = [&](int group) {
    const auto& options = optimizer.options(group);
    return std::pair(options.at("beta1"), options.at("beta2"));
  };
  CHECK(betas(0) == std::pair(0.85, 0.99));
  CHECK(betas(1) == std::pair(0.8, 0.9));
  CHECK(betas(2) == std::pair(0.7, 0.95));
  CHECK(optimizer.lr(1) == 0.5);
  check_error(
      [&] {
        GroupOptions({{"betas", 0.9}});
      },
      "betas: got one number, want two, as {0.9, 0.999}");
  check_error([&] { GroupOptions({{"lr", {0.1, 0.2}}}); }, "lr: got two numbers, want one");
  check_error(
      [&] {
        GroupOptions({{"beta2", 0.9}, {"betas", {0.9, 0.95}}});
      },
      "beta2 occurs twice");
  const ParameterGroups wrong = {ParameterGroup{{{"a", a}}, {{"betas", {0.9, 1}}}}};
  check_error([&] { AdamW(wrong, {}); }, "adamw: beta2 is out of range; got 1");
  check_error([&] { SGD(wrong, {}); }, "sgd: unknown option; got beta1");
}

TEST_CASE("wrong options are refused with what was got and wanted") {
  const Tensor w = leaf({1});
  check_error([&] { SGD({w}, {.lr = -0.1}); },
              "lr is out of range; got -0.1, want a finite number");
  check_error([&] { SGD({w}, {.lr = NAN}); }, "lr is out of range; got nan");
  check_error([&] { SGD({w}, {.momentum = -1}); }, "momentum is out of range");
  check_error([&] { SGD({w}, {.nesterov = true}); }, "nesterov needs momentum without dampening");
  check_error([&] { SGD({w}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}); },
              "got momentum 0.9 and dampening 0.1");
  check_error(
      [&] {
        Adam({w}, {.betas = {0.9, 1.0}});
      },
      "adam: beta2 is out of range; got 1, want a number from 0 to below 1");
  check_error([&] { AdamW({w}, {.eps = -1}); }, "adamw: eps is out of range");
  check_error([&] { LAMB({w}, {.weight_decay = INFINITY}); }, "lamb: weight_decay is out of range");
  check_error([&] { make_optimizer("adamv", {w}, {}); }, "optimizer: unknown name; got adamv");
  check_error([&] { make_optimizer("sgd", {w}, {{"beta1", 0.5}}); }, "unknown option; got beta1");
}

TEST_CASE("wrong parameters are refused by name") {
  const Tensor w = leaf({1}), integers = arange(3);
  check_error([&] { SGD(Parameters{}, {}); }, "no parameters; got an empty list");
  check_error(
      [&] {
        SGD(Parameters{{"a", w}, {"b", w}}, {});
      },
      "a parameter occurs twice; got a and b");
  check_error(
      [&] {
        SGD(Parameters{{"a", w}, {"a", leaf({1})}}, {});
      },
      "two parameters have the name a");
  check_error(
      [&] {
        SGD(Parameters{{"n", integers}}, {});
      },
      "parameter n is not floating; got i64");
  check_error(
      [&] {
        SGD(Parameters{{"r", w * 2}}, {});
      },
      "parameter r is the result of an operation; want a leaf");
  check_error([&] { SGD(Parameters{{"u", Tensor()}}, {}); }, "parameter u is undefined");
  auto optimizer = SGD(Parameters{{"w", w}}, {});
  check_error([&] { optimizer.set_master("w", zeros({1})); },
              "parameter w needs no master; got f32");
  check_error([&] { optimizer.set_master("v", zeros({1})); }, "no such parameter; got v");
  check_error([&] { optimizer.add_group({{{"again", w}}}); }, "got w and again");
}
