// Models of several tensors: how they are called, hooked, cut and run again, and what their errors
// say.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/criterion.h"
#include "core/nn/layers.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace booster;

namespace {

using Numbers = std::vector<float>;

// Takes x, a mask of whole numbers and more tensors; gives x changed, a mean of it, and the others.
class MaskedStep : public Module {
 public:
  MaskedStep() : Module("MaskedStep") {}
  Linear& linear = add<Linear>("linear", 4, 4);
  bool gives_mean = true;

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor mask = x["mask"].to(x["x"].dtype()).unsqueeze(1);
    const Tensor y = tanh(linear(x["x"])) * mask + x["x"];
    Tensors all = x;
    all.set("x", y);
    if (gives_mean) all.set("mean", x.contains("mean") ? x["mean"] + y.mean() : y.mean());
    return all;
  }
};

// Takes "x" of several tensors and gives one without a name.
class Head : public Module {
 public:
  Head() : Module("Head") {}
  Linear& linear = add<Linear>("linear", 4, 2);

 private:
  Tensors forward_named(const Tensors& x) override {
    Tensor y = linear(x["x"]);
    if (x.contains("mean")) y = y + x["mean"];
    return y;
  }
};

// A class that forgot forward.
class NoForward : public Module {
 public:
  explicit NoForward(int links = 1) : Module("NoForward"), links_(links) {}
  int link_count() const override { return links_; }

 private:
  int links_;
};

struct Steps {
  Model model;
  Tensors input;
};

Steps drawn_steps(std::mt19937& random) {
  Sequential steps;
  for (int left = 1 + static_cast<int>(random() % 4); left > 0; --left) {
    MaskedStep step;
    step.gives_mean = random() % 2 == 0;
    steps.append(Model(std::move(step)));
  }
  if (random() % 2) steps.append(Head());
  Tensors x = {{"x", uniform({3, 4}, -1, 1)},
               {"mask", from_vector(std::vector<int64_t>{1, 0, 1}, {3})}};
  if (random() % 2) x.set("other", uniform({3}, 0, 1));
  if (random() % 2) x.set("float mask", ones({3, 1}).requires_grad_());
  return {Model(std::move(steps)), x};
}

Tensors with_gradients(const Tensors& x) {
  return x.map([](const Tensor& one) {
    Tensor leaf = one.detach().clone();
    if (is_floating(leaf.dtype()) && leaf.ndim() == 2) leaf.requires_grad_();
    return leaf;
  });
}

// Runs backward from some of the outputs; returns outputs and all gradients.
std::vector<Numbers> trained(const Steps& steps, const Tensors& x, const Tensors& y, bool all) {
  std::vector<Numbers> numbers;
  Tensor loss;
  for (const auto& [name, one] : y) {
    numbers.push_back(one.to_vector<float>());
    if (one.requires_grad() && (all || !loss.defined()))
      loss = loss.defined() ? loss + sum(one * one) : sum(one * one);
  }
  backward(loss);
  const auto add = [&](const Tensor& leaf) {
    numbers.push_back(leaf.grad().defined() ? leaf.grad().to_vector<float>() : Numbers());
  };
  for (const auto& [name, one] : x) add(one);
  for (const auto& [name, parameter] : steps.model.parameters()) add(parameter);
  steps.model.zero_grad();
  return numbers;
}

}  // namespace

TEST_CASE("tensors are found by name, and errors name those that exist") {
  const Tensor a = ones({2}), b = zeros({3, 1}, {.dtype = DType::i64});
  const Tensors x = {{"tokens", a}, {"mask", b}};
  CHECK(x["mask"].same_body(b));
  CHECK(x.size() == 2);
  CHECK(x.contains("tokens"));
  CHECK_FALSE(x.contains(""));
  CHECK(x.names() == "tokens, mask");
  CHECK(error_of([&] { x["maks"]; }) ==
        "Tensors: no such tensor; got maks; want one of tokens, mask (did you mean mask?)");
  CHECK(contains(error_of([&] { Tensors()["mask"]; }), "got mask, but there is none at all"));
  CHECK(contains(error_of([&] { Tensors{a}["mask"]; }), "want the one without a name"));
  CHECK(
      contains(error_of([&] { const Tensor one = x; }), "got 2 (tokens, mask), want exactly one"));
  CHECK(contains(error_of([&] { Tensors({{"a", a}, {"a", b}}); }), "same name; got a again"));
  CHECK(contains(error_of([&] { Tensors({{"a", a}, {"", b}}); }), "has no name"));
  CHECK(contains(error_of([&] { Tensors({{"a", Tensor()}}); }), "a is undefined"));
  CHECK(contains(error_of([&] { x.rows("batch"); }),
                 "batch: tensors differ in rows; got 2 of tokens and 3 of mask"));
  CHECK(contains(error_of([&] { Tensors({{"s", scalar(1)}}).rows("batch"); }), "no rows"));
  CHECK(contains(error_of([&] { Tensors().rows("batch"); }), "batch: got no tensor"));
  Tensors y = x;
  y.set("mask", a);
  y.set("more", b);
  CHECK(y.names() == "tokens, mask, more");
  CHECK(y["mask"].same_body(a));
  CHECK(x["mask"].same_body(b));
}

TEST_CASE("one tensor becomes tensors and one again, whatever its name") {
  const Tensor a = ones({2});
  const Tensors plain = a, named = {{"a", a}}, none = Tensor();
  CHECK(plain.only().same_body(a));
  CHECK(named.only().same_body(a));
  CHECK(sum(named).item() == 2);
  CHECK(none.empty());
  CHECK_FALSE(none.only().defined());
}

TEST_CASE("a module of one tensor takes and gives named ones too") {
  Linear linear(3, 2);
  const Tensor x = ones({2, 3});
  const Tensors y = linear(Tensors({{"x", x}}));
  CHECK(y.only().to_vector<float>() == linear(x).to_vector<float>());
  CHECK(error_of([&] {
          linear({{"x", x}, {"mask", x}});
        }) == "Linear: takes one tensor; got 2 (x, mask)");
  CHECK(error_of([&] { linear(Tensors()); }) == "Linear: takes one tensor; got none");
  MaskedStep step;
  CHECK(contains(error_of([&] { step({{"x", ones({1, 4})}}); }), "got mask; want one of x"));
  CHECK(contains(error_of([&] { step(ones({1, 4})); }), "got mask, want the one without a name"));
}

TEST_CASE("a call with one tensor gives one, and a class without forward is an error") {
  class Two : public Module {
   public:
    Two() : Module("Two") {}

   private:
    Tensors forward_named(const Tensors& x) override { return {{"a", x}, {"b", x}}; }
  };
  Two two;
  CHECK(error_of([&] { two(ones({1})); }) ==
        "Two: called with one tensor, which gives one; got 2 (a, b), want a call with Tensors");
  CHECK(two(Tensors(ones({1}))).size() == 2);
  NoForward none, links(3);
  const Tensor x = ones({1});
  CHECK(contains(error_of([&] { none(x); }), "NoForward: has no forward; want an override"));
  CHECK(contains(error_of([&] { none(Tensors(x)); }), "NoForward: has no forward"));
  CHECK(contains(error_of([&] { links(x); }), "has 3 links, but no forward_links"));
  CHECK(contains(error_of([&] { links(Tensors(x)); }), "has 3 links, but no forward_links"));
}

TEST_CASE("hooks see all tensors, and hooks on one tensor work where there is one") {
  const Model model = MaskedStep();
  std::string seen;
  model->register_forward_pre_hook([&](Module&, const Tensors& x) {
    seen += x.names() + "; ";
    Tensors changed = x;
    changed.set("x", x["x"] * 0);
    return changed;
  });
  model->register_forward_hook([&](Module&, const Tensors& x, const Tensors& y) {
    seen += x.names() + "; " + y.names();
    return Tensor();
  });
  auto& linear = dynamic_cast<MaskedStep&>(model.module()).linear;
  linear.register_forward_hook([](Module&, const Tensor&, const Tensor& y) { return y * 0 + 2; });
  const Tensors y = model({{"x", ones({1, 4})}, {"mask", ones({1})}});
  CHECK(seen == "x, mask; x, mask; x, mask, mean");
  CHECK(y["x"].to_vector<float>() == tanh(full({1, 4}, 2)).to_vector<float>());
  model->register_forward_hook([](Module&, const Tensor&, const Tensor&) { return Tensor(); });
  CHECK(contains(error_of([&] {
                   model({{"x", ones({1, 4})}, {"mask", ones({1})}});
                 }),
                 "used as one tensor; got "));
}

TEST_CASE("several tensors: links in runs and recomputation give the whole's bits and gradients") {
  for (const unsigned seed : testing::draws(400)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    manual_seed(seed);
    const Steps steps = drawn_steps(random);
    const bool all = random() % 2 == 0;
    const Tensors x = with_gradients(steps.input);
    const auto want = trained(steps, x, steps.model(x), all);
    const bool whole = random() % 3 == 0;
    for (const auto& [name, module] : steps.model->named_modules())
      module->set_recompute(whole ? name.empty() : random() % 2 == 0);
    const Tensors again = with_gradients(steps.input);
    Tensors y = again;
    const int links = steps.model->link_count();
    for (int first = 0; first < links;) {
      const int last =
          first + 1 + static_cast<int>(random() % static_cast<unsigned>(links - first));
      y = steps.model->run_links(y, first, last);
      first = last;
    }
    CHECK(trained(steps, again, y, all) == want);
  }
}

TEST_CASE("checkpoint of several results: whole numbers, unused ones, and inputs handed on") {
  const Tensor w = full({2}, 3).requires_grad_(), x = full({2}, 2).requires_grad_();
  const Tensor mask = ones({2}, {.dtype = DType::i64});
  const auto several = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] * w, in[0] * in[0], in[1], in[1] + 1, in[0]};
  };
  const std::vector<Tensor> y = checkpoint(several, {x, mask});
  REQUIRE(y.size() == 5);
  CHECK(y[2].same_body(mask));
  CHECK(y[4].same_body(x));
  CHECK_FALSE(y[3].requires_grad());
  backward(sum(y[0] * 2));  // the square is not used
  CHECK(x.grad().to_vector<float>() == Numbers{6, 6});
  CHECK(w.grad().to_vector<float>() == Numbers{4, 4});
  const std::vector<Tensor> z = checkpoint(several, {x, mask});
  backward(sum(z[1]) + sum(z[4]));
  CHECK(x.grad().to_vector<float>() == Numbers{11, 11});
  CHECK(w.grad().to_vector<float>() == Numbers{4, 4});
}

TEST_CASE("criteria are made of functions on one tensor, on several, and on auto") {
  const Tensor y = full({2}, 3), t = full({2}, 1);
  const Criterion one = [](const Tensor& a, const Tensor& b) { return sum(a - b); };
  const Criterion generic = [](const auto& a, const auto& b) { return (a - b).sum(); };
  const Criterion several = [](const Tensors& a, const Tensors& b) {
    return sum(a["y"] - b["t"]) + a["aux"];
  };
  CHECK(one(y, t).item() == 4);
  CHECK(generic(y, t).item() == 4);
  CHECK(several({{"y", y}, {"aux", scalar(5)}}, {{"t", t}}).item() == 9);
  CHECK(one.divisor(t).item() == 2);
  CHECK(several.divisor({{"t", t}, {"u", t}}).item() == 2);
  CHECK(contains(error_of([&] { one({{"y", y}, {"z", y}}, t); }), "got 2 (y, z)"));
  CHECK(contains(error_of([&] {
                   several.divisor({{"t", t}, {"u", ones({3})}});
                 }),
                 "differ in rows; got 2 of t and 3 of u"));
}
