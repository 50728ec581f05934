// Optimizers that each own ranges of the parameters together equal one that owns everything, bit
// for bit. Covers every rule, every way of keeping values, and all shapes, ranges and skipped
// steps.
#include "core/optim/algorithms/registry.h"
#include "core/optim/clip.h"
#include "kernels/arguments/multi_tensor.h"
#include "platform/threads.h"
#include "tests/capture_part.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace booster;

namespace {

enum class Keep { values, masters, kahan, stochastic };

struct Setup {
  const char* rule;
  OptimizerOptions options;
  DType dtype;
  Keep keep;
};
const Setup setups[] = {
    {"sgd", {{"lr", 0.1}, {"maximize", 1}}, DType::f32, Keep::values},
    {"sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.2}}, DType::f32, Keep::values},
    {"sgd", {{"lr", 0.1}, {"momentum", 0.5}, {"nesterov", 1}}, DType::f64, Keep::values},
    {"sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.1}}, DType::f16, Keep::masters},
    {"sgd", {{"lr", 0.01}, {"momentum", 0.9}}, DType::bf16, Keep::stochastic},
    {"sgd", {{"lr", 0.01}}, DType::bf16, Keep::kahan},
    {"adam", {{"lr", 0.01}, {"weight_decay", 0.1}}, DType::f32, Keep::values},
    {"adam", {{"lr", 0.01}}, DType::f16, Keep::masters},
    {"adamw", {{"lr", 0.01}}, DType::f32, Keep::values},
    {"adamw", {{"lr", 0.01}}, DType::bf16, Keep::masters},
    {"adamw", {{"lr", 0.01}}, DType::bf16, Keep::kahan},
    {"adamw", {{"lr", 0.01}}, DType::bf16, Keep::stochastic},
    {"rmsprop", {{"lr", 0.01}, {"maximize", 1}}, DType::f32, Keep::values},
    {"rmsprop", {{"lr", 0.01}, {"centered", 1}, {"weight_decay", 0.1}}, DType::bf16, Keep::masters},
    {"rmsprop", {{"lr", 0.01}, {"momentum", 0.9}}, DType::bf16, Keep::stochastic},
    {"rmsprop", {{"lr", 0.01}, {"momentum", 0.9}, {"centered", 1}}, DType::f64, Keep::values},
    {"lamb", {{"lr", 0.01}}, DType::f32, Keep::values},
    {"lamb", {{"lr", 0.01}, {"max_grad_norm", 0}}, DType::f64, Keep::values},
    {"lamb", {{"lr", 0.01}}, DType::bf16, Keep::masters},
    {"lamb", {{"lr", 0.01}, {"decoupled_decay", 1}}, DType::bf16, Keep::stochastic},
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine_); }
  bool one_in(int64_t n) { return below(n) == 0; }
  Shape shape() {
    if (one_in(6)) return {16000 + below(4000)};  // about one chunk of the kernels
    Shape shape;
    for (int64_t dims = below(4); dims > 0; --dims) shape.push_back(below(12) + !one_in(8));
    return shape;
  }
  Tensor numbers(const Shape& shape, DType dtype) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& x : values) x = std::normal_distribution<double>()(engine_);
    return untracked::cast(from_vector(values, shape), dtype).clone();
  }
  // Returns adjacent ranges, some of them empty, that cover n elements.
  std::vector<ElementRange> cut(int64_t n, size_t parts) {
    std::vector<int64_t> ends;
    for (size_t i = 1; i < parts; ++i) ends.push_back(below(n + 1));
    std::ranges::sort(ends);
    ends.push_back(n);
    std::vector<ElementRange> ranges;
    for (const int64_t end : ends) ranges.push_back({ranges.empty() ? 0 : ranges.back().end, end});
    return ranges;
  }

 private:
  std::mt19937 engine_;
};

Parameters copy_of(const Parameters& parameters) {
  Parameters copies;
  for (const auto& [name, tensor] : parameters) {
    copies.push_back({name, tensor.clone()});
    copies.back().tensor.requires_grad_();
  }
  return copies;
}

// A rank with its copy of the parameters; the last parameter has its own group.
struct Replica {
  Replica(const Setup& setup, const Parameters& start)
      : parameters(copy_of(start)),
        optimizer(make_optimizer(setup.rule, groups(), setup.options)) {}
  ParameterGroups groups() const {
    ParameterGroup first{{parameters.begin(), parameters.end() - 1}};
    return std::vector<ParameterGroup>{first, {{parameters.back()}, {{"lr", 0.03}}}};
  }
  void keep(Keep how) {
    if (how == Keep::masters) optimizer.make_masters();
    if (how != Keep::kahan && how != Keep::stochastic) return;
    const auto rounding = how == Keep::kahan ? UpdateRounding::kahan : UpdateRounding::stochastic;
    for (const auto& p : parameters) optimizer.set_rounding(p.name, rounding, 7);
  }

  Parameters parameters;
  Optimizer optimizer;
};

using Ranges = std::vector<std::vector<ElementRange>>;  // [parameter][rank]

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

void copy_range(const Tensor& to, const Tensor& from, ElementRange range, int64_t from_first = 0) {
  const int64_t width = size_of(to.dtype());
  std::memcpy(static_cast<char*>(to.data()) + range.begin * width,
              static_cast<char*>(from.data()) + (range.begin - from_first) * width,
              static_cast<size_t>(range.size() * width));
}

// One optimizer that owns everything, and several that own ranges.
class Comparison {
 public:
  Comparison(const Setup& setup, Draw& draw) : setup_(setup), draw_(draw) {
    for (int i = 0; i < 3; ++i)
      start_.push_back({"p" + std::to_string(i), draw_.numbers(draw_.shape(), setup.dtype)});
    whole_ = std::make_unique<Replica>(setup, start_);
    whole_->keep(setup.keep);
    const auto count = static_cast<size_t>(1 + draw_.below(4));
    for (const auto& p : start_) ranges_.push_back(draw_.cut(p.tensor.numel(), count));
    const bool own_first = draw_.one_in(2);
    for (size_t rank = 0; rank < count; ++rank) {
      parts_.emplace_back(setup, start_);
      if (own_first) own(rank);
      parts_[rank].keep(setup.keep);
    }
    share();
    if (!own_first && draw_.one_in(2)) step();  // then ranges are cut from existing state
    for (size_t rank = 0; rank < count; ++rank) own(rank);
  }

  void step() {
    const float found = draw_.one_in(4) ? 1 : 0, inverse = 0.5f;
    const bool clips = draw_.one_in(3);
    const double lr = draw_.one_in(3) ? 0.005 * static_cast<double>(1 + draw_.below(4)) : 0;
    for (size_t i = 0; i < start_.size(); ++i)
      grads_[i] =
          draw_.one_in(5) ? Tensor() : draw_.numbers(start_[i].tensor.shape(), setup_.dtype);
    const Tensor factor = scalar(inverse);
    const auto one_step = [&](Replica& replica) {
      for (size_t i = 0; i < start_.size(); ++i)
        replica.parameters[i].tensor.set_grad(grads_[i].defined() ? grads_[i].clone() : Tensor());
      if (lr > 0) replica.optimizer.set_lr(lr);
      if (clips) replica.optimizer.clip_grad_by_norm(0.5, 2, factor);
      replica.optimizer.step({.found_inf = &found, .inverse_scale = &inverse});
    };
    norm_ = squares_ = sum_ = Tensor();
    one_step(*whole_);
    for (Replica& part : parts_) one_step(part);
    check_sums();
    exchange();
    check_values();
  }

  // Checks that the merged state equals the state of the optimizer that owns everything.
  void check_state() const {
    const OptimizerState want = whole_->optimizer.state_dict(), got = merged_state();
    REQUIRE(got.tensors.size() == want.tensors.size());
    for (const auto& [name, tensor] : want.tensors) {
      CAPTURE_PART(name);
      CHECK(same_bits(got.tensors.at(name), tensor));
    }
    CHECK(got.steps == want.steps);
  }

  // Continues in new optimizers that own other ranges, from whole tensors. With `as_saved`: in the
  // same ranges, from each rank's parts.
  void resume(bool as_saved) {
    const OptimizerState whole_state = merged_state();
    Parameters now;
    for (const auto& p : whole_->parameters) now.push_back({p.name, p.tensor.detach()});
    std::vector<Replica> next;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      next.emplace_back(setup_, now);
      next.back().keep(setup_.keep);
    }
    std::vector<OptimizerState> saved;
    for (const Replica& part : parts_) saved.push_back(part.optimizer.state_dict());
    if (!as_saved)
      for (auto& ranges : ranges_) ranges = draw_.cut(ranges.back().end, parts_.size());
    std::swap(parts_, next);
    share();
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      own(rank);
      parts_[rank].optimizer.load_state_dict(as_saved ? saved[rank] : whole_state);
    }
  }

 private:
  void own(size_t rank) {
    for (size_t i = 0; i < start_.size(); ++i)
      parts_[rank].optimizer.own(start_[i].name, ranges_[i][rank]);
  }

  // The parts use the whole optimizer's norms, whose sums have another order. Their own sums are
  // added up for comparison.
  void share() {
    whole_->optimizer.share_norms({.gradient_norm =
                                       [this](double power) {
                                         if (!norm_.defined())
                                           norm_ =
                                               gradient_norm(whole_->optimizer.gradients(), power);
                                         return norm_.clone();
                                       },
                                   .add_squares =
                                       [this](const Tensor& squares, const Parameters& parameters) {
                                         squares_ = squares.clone();
                                         names_ = parameters;
                                       }});
    for (Replica& part : parts_)
      part.optimizer.share_norms({.gradient_norm = [this](double) { return norm_.clone(); },
                                  .add_squares =
                                      [this](Tensor squares, const Parameters& parameters) {
                                        REQUIRE(parameters.size() == names_.size());
                                        for (size_t i = 0; i < names_.size(); ++i)
                                          CHECK(parameters[i].name == names_[i].name);
                                        if (!sum_.defined()) sum_ = zeros_like(squares);
                                        sum_.add_(squares);
                                        squares.copy_(squares_);
                                      }});
  }

  void check_sums() const {
    if (!squares_.defined()) return;
    const auto want = squares_.to_vector<double>();
    const auto got = own_parts() ? sum_.to_vector<double>() : want;
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(std::abs(got[i] - want[i]) <= 1e-12 * std::abs(want[i]));
  }
  // Before they own ranges each has the complete sums.
  bool own_parts() const {
    for (const Replica& part : parts_)
      for (const auto& [name, saved] : part.optimizer.state_dict().parts)
        if (saved.shape.numel() > 0) return true;
    return false;
  }

  // Copies every rank's ranges to all others, like an all-gather.
  void exchange() {
    for (size_t i = 0; i < start_.size(); ++i)
      for (size_t from = 0; from < parts_.size(); ++from)
        for (Replica& to : parts_)
          if (&to != &parts_[from])
            copy_range(to.parameters[i].tensor, parts_[from].parameters[i].tensor,
                       ranges_[i][from]);
  }

  void check_values() const {
    for (const Replica& part : parts_)
      for (size_t i = 0; i < start_.size(); ++i)
        CHECK(same_bits(part.parameters[i].tensor, whole_->parameters[i].tensor));
  }

  OptimizerState merged_state() const {
    OptimizerState merged = parts_[0].optimizer.state_dict();
    merged.parts.clear();
    for (auto& [name, tensor] : merged.tensors) {
      const auto i = static_cast<size_t>(name[1] - '0');
      const Tensor whole = empty(start_[i].tensor.shape(), {tensor.dtype()});
      for (size_t rank = 0; rank < parts_.size(); ++rank) {
        const OptimizerState saved = parts_[rank].optimizer.state_dict();
        const Tensor& part = saved.tensors.at(name);
        const bool is_part = saved.parts.count(start_[i].name) == 1;
        CHECK(part.numel() == ranges_[i][rank].size());
        CHECK(is_part == (part.numel() < whole.numel()));
        CHECK(part.body()->storage->bytes == part.bytes());  // no other memory is kept
        copy_range(whole, part, ranges_[i][rank], ranges_[i][rank].begin);
      }
      tensor = whole;
    }
    return merged;
  }

  const Setup& setup_;
  Draw& draw_;
  Parameters start_;
  Tensor grads_[3];
  std::unique_ptr<Replica> whole_;
  std::vector<Replica> parts_;
  Ranges ranges_;
  Tensor norm_, squares_, sum_;
  Parameters names_;
};

}  // namespace

TEST_CASE("optimizers that own ranges do together what one does that owns all") {
  const int threads = kernels::thread_count();
  kernels::set_thread_count(1);  // results do not depend on it, but small steps run faster
  for (const Setup& setup : setups)
    for (const unsigned seed : testing::draws(12)) {
      CAPTURE(setup.rule);
      CAPTURE(std::string(name_of(setup.dtype)));
      CAPTURE(static_cast<int>(setup.keep));
      CAPTURE(seed);
      Draw draw(seed);
      Comparison comparison(setup, draw);
      for (int step = 0; step < 4; ++step) comparison.step();
      comparison.check_state();
      comparison.resume(seed % 2 == 0);
      for (int step = 0; step < 3; ++step) comparison.step();
      comparison.check_state();
    }
  kernels::set_thread_count(threads);
}
