// Saved optimizer state: by parameter name, all or nothing, and continuing bit for bit.
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "kernels/device/memory.h"
#include "platform/threads.h"
#include "tests/error_of.h"
#include "tests/optim/golden.h"

using namespace booster;
using namespace booster::test;

namespace {

OptimizerState deep_copy(OptimizerState state) {
  for (auto& [name, tensor] : state.tensors) tensor = tensor.clone();
  return state;
}

std::vector<double> joined(const Parameters& parameters) {
  std::vector<double> all;
  for (const auto& [name, tensor] : parameters)
    for (double x : tensor.to_vector<double>()) all.push_back(x);
  return all;
}

void copy_values(const Parameters& to, const Parameters& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i].tensor.detach().copy_(from[i].tensor);
}

Parameters two(DType dtype = DType::f32) {
  Parameters parameters = {{"a", zeros({2}, {dtype})}, {"b", ones({3}, {dtype})}};
  for (auto& [name, tensor] : parameters) {
    tensor.requires_grad_();
    tensor.set_grad(full(tensor.shape(), 0.5, {dtype}));
  }
  return parameters;
}

}  // namespace

TEST_CASE("a run continued from saved state has the bits of one never stopped") {
  const Json file = golden("optimizers");
  for (const Json& one : file["cases"]) {
    CAPTURE(one["case"].get<std::string>());
    const auto fresh = [&] { return parameters_of(file["values"], file["shapes"], DType::f32); };
    const auto make = [&](const Parameters& p) {
      return make_optimizer(one["rule"], p, options_in(one["options"]));
    };
    const auto run = [&](const Parameters& p, Optimizer& optimizer, size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        set_grads(p, file["grads"][i], file["shapes"]);
        optimizer.step();
      }
    };
    const Parameters whole = fresh(), before = fresh(), after = fresh();
    Optimizer a = make(whole), b = make(before), c = make(after);
    run(whole, a, 0, 6);
    run(before, b, 0, 3);
    c.load_state_dict(deep_copy(b.state_dict()));
    copy_values(after, before);
    run(after, c, 3, 6);
    CHECK(joined(after) == joined(whole));
  }
}

TEST_CASE("training gives the same bits with one thread and with two") {
  const int threads = kernels::thread_count();
  std::vector<double> bits[2];
  for (int count : {1, 2}) {
    kernels::set_thread_count(count);
    Parameters parameters = {{"big", full({70001}, 0.3)}, {"small", full({5}, 0.1)}};
    for (auto& [name, tensor] : parameters) tensor.requires_grad_();
    auto optimizer = LAMB(parameters, {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      for (auto& [name, tensor] : parameters) {
        Tensor grad = untracked::cast(arange(tensor.numel()), DType::f32);
        tensor.set_grad(grad.mul_(1e-3));
      }
      optimizer.step();
    }
    bits[count - 1] = joined(parameters);
  }
  kernels::set_thread_count(threads);
  CHECK(bits[0] == bits[1]);
}

TEST_CASE("state is named by parameter") {
  auto optimizer = AdamW(two(), {.lr = 0.1});
  optimizer.step();
  const auto state = optimizer.state_dict();
  CHECK(state.rule == "adamw");
  CHECK(state.tensors.size() == 4);
  CHECK(state.tensors.count("a.exp_avg") == 1);
  CHECK(state.tensors.count("b.exp_avg_sq") == 1);
  CHECK(state.groups.at(0).options.at("lr") == 0.1);
}

TEST_CASE("a master is saved, and loading it rewrites the 16-bit parameter") {
  const auto make = [](const Parameters& parameters) {
    auto optimizer = SGD(parameters, {.lr = 1e-3, .momentum = 0.9});
    for (const auto& [name, tensor] : parameters)
      optimizer.set_master(name, untracked::cast(tensor, DType::f32).clone());
    return optimizer;
  };
  const Parameters p = two(DType::bf16), q = two(DType::bf16);
  auto a = make(p), b = make(q);
  for (int step = 0; step < 5; ++step) a.step();
  const Tensor held = b.master("b");
  b.load_state_dict(deep_copy(a.state_dict()));
  CHECK(joined(q) == joined(p));
  CHECK(b.master("b").same_body(held));
  CHECK(held.to_vector<float>() == a.master("b").to_vector<float>());
  a.step();
  b.step();
  CHECK(held.to_vector<float>() == a.master("b").to_vector<float>());
}

TEST_CASE("prepared state is in force only once it is put there, in the tensors that were given") {
  auto source = Adam(two(), {.lr = 0.1});
  source.step();
  const OptimizerState saved = deep_copy(source.state_dict());
  auto optimizer = Adam(two(), {.lr = 0.7});
  const auto put_in_force = optimizer.prepare_load(saved);
  CHECK(optimizer.lr() == 0.7);
  CHECK(optimizer.state_dict().tensors.empty());
  put_in_force();
  CHECK(optimizer.lr() == 0.1);
  CHECK(optimizer.state_dict().steps == saved.steps);
  for (const auto& [name, tensor] : optimizer.state_dict().tensors)
    CHECK(tensor.shares_storage(saved.tensors.at(name)));
}

TEST_CASE("only options that were constructed otherwise are adopted") {
  auto source = Adam(two(), {.lr = 0.1, .weight_decay = 0.5});
  source.set_option(0, "eps", 1e-3);
  source.set_lr(0.01);
  OptimizerState saved = source.state_dict();
  const auto changes = Adam(two(), {.lr = 0.1, .weight_decay = 0}).adopt_changed_options(saved);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "weight_decay");
  CHECK(changes[0].before == 0.5);
  CHECK(changes[0].now == 0);
  OptimizerOptions wanted = source.options();
  wanted["weight_decay"] = 0;
  CHECK(saved.groups[0].options == wanted);
}

TEST_CASE("state that does not fit changes nothing and is refused by name") {
  auto source = Adam(two(), {.lr = 0.1});
  source.step();
  const OptimizerState good = deep_copy(source.state_dict());
  const auto refused = [&](auto spoil) {
    OptimizerState bad = good;
    spoil(bad);
    auto optimizer = Adam(two(), {.lr = 0.7});
    const std::string error = error_of([&] { optimizer.load_state_dict(bad); });
    CHECK(optimizer.lr() == 0.7);
    CHECK(optimizer.state_dict().tensors.empty());
    CHECK(optimizer.state_dict().steps.at("a") == 0);
    return error;
  };
  using S = OptimizerState;
  CHECK(contains(refused([](S& s) { s.rule = "sgd"; }), "got sgd, want adam"));
  CHECK(contains(refused([](S& s) { s.groups.clear(); }), "got 0, want 1"));
  CHECK(contains(refused([](S& s) { s.tensors.erase("b.exp_avg"); }), "exp_avg of parameter b"));
  CHECK(contains(refused([](S& s) { s.tensors["b.exp_avg"] = zeros({4}); }),
                 "b.exp_avg does not match; got f32 (4,), want f32 (3,)"));
  CHECK(contains(refused([](S& s) { s.tensors["b.exp_avg"] = zeros({3}, {DType::f16}); }),
                 "got f16 (3,), want f32 (3,)"));
  CHECK(contains(refused([](S& s) { s.tensors["c.exp_avg"] = zeros({3}); }),
                 "c.exp_avg belongs to no parameter"));
  CHECK(contains(refused([](S& s) { s.steps.erase("b"); }), "nothing is saved for parameter b"));
  CHECK(contains(refused([](S& s) { s.steps["b"] = -1; }), "step count of b"));
  CHECK(contains(refused([](S& s) { s.steps["c"] = 1; }), "saved for other parameters"));
  CHECK(contains(refused([](S& s) { s.groups[0].options["lr"] = -1; }), "lr is out of range"));
  CHECK(contains(refused([](S& s) { s.groups[0].options.erase("eps"); }), "option eps is missing"));
  CHECK(contains(refused([](S& s) { s.tensors["a.master"] = zeros({2}); }),
                 "master of parameter a; got one, want none"));
}

TEST_CASE("a parameter that moved to another group is refused, or adopted where that is wanted") {
  const auto groups = [](const Parameters& all, bool moved) {
    const Parameters a = {all[0]}, b = {all[1]}, c = {{"c", zeros({1}).requires_grad_()}};
    Parameters first = a, second = c;
    (moved ? second : first).push_back(b[0]);
    return AdamW({{first}, {second, {{"lr", 0.01}}}}, {.lr = 0.1});
  };
  const Parameters p = two(), q = two();
  Optimizer saved = groups(p, false), now = groups(q, true);
  saved.step();
  OptimizerState state = deep_copy(saved.state_dict());
  CHECK(state.groups[0].parameters == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_WITH_AS(
      now.load_state_dict(state),
      "load_state_dict: 1 of 3 parameters were saved in another group and would train with other "
      "options; got b in group 1, want group 0 as saved, or adopt_moved_parameters first",
      Error);
  const std::vector<MovedParameter> moved = now.adopt_moved_parameters(state);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].name == "b");
  CHECK(moved[0].before == 0);
  CHECK(moved[0].now == 1);
  now.load_state_dict(state);
  CHECK(now.state_dict().tensors.at("b.exp_avg").to_vector<float>() ==
        saved.state_dict().tensors.at("b.exp_avg").to_vector<float>());
  CHECK(now.adopt_moved_parameters(state).empty());
  for (auto& group : state.groups) group.parameters.clear();  // as in an older checkpoint
  CHECK_NOTHROW(now.load_state_dict(state));
}
