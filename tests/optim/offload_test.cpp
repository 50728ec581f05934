// Host-side state for parameters on a GPU. All values are bitwise equal to an optimizer's with
// everything on the CPU; both use the CPU's kernels.
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "core/tensor/device_number.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"
#include "kernels/arguments/multi_tensor.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <optional>
#include <random>

using namespace booster;

namespace {

enum class Rounds : uint8_t { to_nearest, with_masters, by_noise, by_compensation };

// Random choices shared by both.
struct Drawn {
  std::string rule;
  DType dtype = DType::f32;
  Rounds rounds = Rounds::to_nearest;
  std::vector<Shape> shapes;
  std::vector<ElementRange> owned;
  bool averages = false;
  bool offloads_first = false;  // before masters and averages are made
};

Drawn drawn(std::mt19937& random) {
  const auto up_to = [&](int64_t last) {
    return static_cast<int64_t>(random() % static_cast<uint32_t>(last + 1));
  };
  Drawn d;
  d.rule = std::array{"sgd", "adam", "adamw", "rmsprop", "lamb"}[static_cast<size_t>(up_to(4))];
  d.dtype = std::array{DType::f32, DType::f64, DType::f16,
                       DType::bf16}[static_cast<size_t>(up_to(3))];
  if (is_16_bit(d.dtype)) d.rounds = static_cast<Rounds>(up_to(d.dtype == DType::bf16 ? 3 : 1));
  for (int64_t i = 1 + up_to(2); i > 0; --i) {
    d.shapes.push_back({1 + up_to(5), 1 + up_to(40)});
    const int64_t all = d.shapes.back().numel(), begin = up_to(all), end = up_to(all);
    d.owned.push_back(up_to(1) == 0 ? ElementRange{0, all}
                                    : ElementRange{std::min(begin, end), std::max(begin, end)});
  }
  d.averages = up_to(1) == 0;
  d.offloads_first = up_to(1) == 0;
  return d;
}

Tensor numbers(const Shape& shape, DType dtype, uint64_t seed) {
  Generator generator(seed);
  return untracked::cast(uniform(shape, -1, 1, {}, generator), dtype);
}

std::string name_of_parameter(size_t i) { return "p" + std::to_string(i); }

// One of the two optimizers.
class Twin {
 public:
  Twin(const Drawn& d, Device device) : drawn_(d), device_(device) {
    Parameters parameters;
    for (size_t i = 0; i < d.shapes.size(); ++i) parameters.push_back(made(i));
    optimizer_.emplace(make_optimizer(d.rule, {{parameters}}, {{"lr", 0.05}}));
    if (d.offloads_first) optimizer_->keep_state_on(Device{});
    for (size_t i = 0; i < d.owned.size(); ++i)
      optimizer_->own(name_of_parameter(i), d.owned[i]);
    round();
    if (d.averages) average_.emplace(*optimizer_, ParameterAverageOptions{.decay = 0.5});
    optimizer_->keep_state_on(Device{});
    // Norms and sums of several ranks, on the parameters' device.
    optimizer_->share_norms(
        {.gradient_norm =
             [device](double) { return full({}, 1.75, {.dtype = DType::f64, .device = device}); },
         .add_squares =
             [device](const Tensor& squares, const Parameters&) {
               CHECK(squares.device() == device);
               Tensor(squares).mul_(2);
             }});
  }

  // Performs a random program action; deterministic in its arguments.
  void act(int64_t action, uint64_t seed) {
    const NoGradGuard no_grad;
    switch (action) {
      case 0: optimizer_->zero_grad(); break;
      case 1: optimizer_->clip_grad_by_value(0.25); break;
      case 2: optimizer_->clip_grad_by_norm(0.5); break;
      case 3: optimizer_->set_lr(0.01 * static_cast<double>(1 + seed % 5)); break;
      case 4: load(seed); break;
      case 5: write_weights(seed); break;
      case 6: narrow(seed); break;
      case 7: add_group(seed); break;
      case 8:
        if (average_) average_->update();
        break;
      case 9: optimizer_->settle_masters(); break;
      case 10: look_at_averages(); break;
      default:
        if (seed % 4 > 0) give_gradients(seed);
        step(seed);
    }
  }

  // Returns all state by name, as bytes.
  std::map<std::string, std::vector<uint8_t>> bits() const {
    std::map<std::string, std::vector<uint8_t>> all;
    const auto add = [&](const std::string& name, const Tensor& x) {
      const Tensor here = untracked::contiguous(x.to(Device{}));
      auto& bytes = all[name];
      bytes.resize(static_cast<size_t>(here.bytes()));
      if (!bytes.empty()) std::memcpy(bytes.data(), here.data(), bytes.size());
    };
    for (const auto& [name, tensor] : optimizer_->parameters()) add(name, tensor.detach());
    const OptimizerState state = optimizer_->state_dict();
    for (const auto& [name, tensor] : state.tensors) add(name, tensor);
    for (const auto& [name, taken] : state.steps) all[name + ".steps"] = {uint8_t(taken)};
    for (const Tensor& seen : seen_) add("seen " + std::to_string(all.size()), seen);
    return all;
  }
  // Returns whether none of the kept state is on the GPU.
  bool keeps_all_on_host() const {
    for (const auto& [name, tensor] : optimizer_->state_dict().tensors)
      if (tensor.device() != Device{}) return false;
    return true;
  }

 private:
  NamedTensor made(size_t i) const {
    const Shape& shape = drawn_.shapes[i % drawn_.shapes.size()];
    Tensor x = numbers(shape, drawn_.dtype, i).to(device_);
    return {name_of_parameter(i), x.requires_grad_()};
  }

  void round() {
    if (drawn_.rounds == Rounds::with_masters) return optimizer_->make_masters();
    if (drawn_.rounds == Rounds::to_nearest) return;
    for (const auto& [name, tensor] : optimizer_->parameters())
      optimizer_->set_rounding(name, drawn_.rounds == Rounds::by_noise ? UpdateRounding::stochastic
                                                                       : UpdateRounding::kahan);
  }

  void give_gradients(uint64_t seed) {
    for (const auto& [name, tensor] : optimizer_->parameters())
      if (seed++ % 5 > 0)
        tensor.set_grad(numbers(tensor.shape(), tensor.dtype(), seed).to(device_));
  }

  void step(uint64_t seed) {
    const TensorOptions on_device = {.dtype = DType::f32, .device = device_};
    const Tensor found = full({}, seed % 3 == 0 ? 1 : 0, on_device),
                 inverse = full({}, 0.125, on_device);
    optimizer_->step({.found_inf = device_float(seed % 2 == 0 ? found : Tensor()),
                      .inverse_scale = device_float(seed % 5 == 0 ? inverse : Tensor())});
  }

  // Saves, or returns to the saved state.
  void load(uint64_t seed) {
    if (seed % 2 == 0 && saved_) return optimizer_->load_state_dict(*saved_);
    saved_ = optimizer_->state_dict();
    for (auto& [name, tensor] : saved_->tensors) tensor = tensor.clone();
  }

  void write_weights(uint64_t seed) {
    for (const auto& [name, tensor] : optimizer_->parameters())
      if (seed++ % 2 == 0)
        tensor.detach().copy_(numbers(tensor.shape(), tensor.dtype(), seed));
  }

  void narrow(uint64_t seed) {
    ElementRange& range = drawn_.owned[seed % drawn_.owned.size()];
    if (range.size() > 2 && !saved_)
      optimizer_->own(name_of_parameter(seed % drawn_.owned.size()),
                      range = {range.begin + 1, range.end - 1});
  }

  void add_group(uint64_t) {
    const size_t i = optimizer_->parameters().size();
    const bool has_rounding = drawn_.rounds > Rounds::with_masters;
    if (i > 5 || has_rounding || saved_) return;
    optimizer_->add_group({{made(i)}, {{"lr", 0.02}}});
  }

  void look_at_averages() {
    if (!average_) return;
    const AveragedWeights weights(*average_);
    for (const auto& [name, tensor] : optimizer_->parameters()) seen_.push_back(tensor.clone());
  }

  Drawn drawn_;
  Device device_;
  std::optional<Optimizer> optimizer_;
  std::optional<ParameterAverage> average_;
  std::optional<OptimizerState> saved_;
  std::vector<Tensor> seen_;
};

std::string first_difference(const Twin& got, const Twin& want) {
  const auto here = got.bits(), there = want.bits();
  for (const auto& [name, bits] : there) {
    const auto found = here.find(name);
    if (found == here.end() || found->second != bits) return name;
  }
  return here.size() == there.size() ? "" : "other tensors";
}

}  // namespace

TEST_CASE("GPU: steps on the host have the CPU's bits, whatever comes between them" * on_gpu()) {
  for (const unsigned trial : testing::draws(120)) {
    std::mt19937 random(trial);
    const Drawn d = drawn(random);
    std::string told = std::to_string(trial) + " " + d.rule + " " + booster::name_of(d.dtype) +
                       " " + std::to_string(static_cast<int>(d.rounds));
    Twin host(d, Device{}), offloaded(d, gpu);
    for (int i = 0; i < 14; ++i) {
      const auto action = static_cast<int64_t>(random() % 18);
      const uint64_t seed = random() % 1000;
      told += " " + std::to_string(action);
      host.act(action, seed);
      offloaded.act(action, seed);
    }
    INFO(told);
    REQUIRE(first_difference(offloaded, host) == "");
    REQUIRE(offloaded.keeps_all_on_host());
  }
}

TEST_CASE("GPU: state that was on the GPU moves to the host, and back" * on_gpu()) {
  Tensor w = ones({5}, {.dtype = DType::bf16, .device = gpu});
  w.requires_grad_();
  Optimizer optimizer = LAMB(Parameters{{"w", w}}, {.lr = 0.1});
  optimizer.make_masters();
  const auto step = [&] {
    w.set_grad(ones({5}, {.dtype = DType::bf16, .device = gpu}));
    optimizer.step();
    return w.to_vector<double>()[0];
  };
  double before = step();
  for (const Device home : {Device{}, gpu, Device{}}) {
    const auto numbers = optimizer.master("w").to_vector<double>();
    optimizer.keep_state_on(home);
    CHECK(optimizer.master("w").device() == home);
    CHECK(optimizer.master("w").to_vector<double>() == numbers);
    const double now = step();
    CHECK(now < before);
    before = now;
    for (const auto& [name, tensor] : optimizer.state_dict().tensors)
      CHECK(tensor.device() == home);
  }
  CHECK(optimizer.state_dict().groups[0].step == 4);
  CHECK(w.device() == gpu);
  optimizer.master("w").fill_(3);  // used, although it is moved first
  optimizer.keep_state_on(gpu);
  optimizer.settle_masters();
  CHECK(w.to_vector<double>() == std::vector<double>(5, 3));
}

TEST_CASE("state is kept on the CPU or with the parameters") {
  Tensor w = ones({2});
  w.requires_grad_();
  Optimizer optimizer = LAMB(Parameters{{"w", w}}, {});
  optimizer.keep_state_on(Device{});
  CHECK(error_of([&] { optimizer.keep_state_on(gpu); }) ==
        "keep_state_on: the parameters are on another device; got GPU 0, want their device or the "
        "CPU");
}
