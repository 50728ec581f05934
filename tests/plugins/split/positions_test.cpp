// A program's own blocks that rotate queries and keys by position. They query which tokens they
// hold, and give one process's results in every sequence mode, or throw.
#include "booster/booster.h"
#include "core/tensor/token_layout.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/small_vit.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t model_width = 16, head_count = 4, head_width = 4, token_count = 8;

// Source of a block's positions.
enum class Positions : uint8_t { asked, counted, table, none };

// Rotates the halves of each head's features by angles that grow with the position (Su et al.,
// "RoFormer", 2021).
class RotaryAttention : public Module {
 public:
  explicit RotaryAttention(Positions positions)
      : Module("RotaryAttention"),
        positions_(positions),
        qkv_(add<Linear>("qkv", model_width, 3 * model_width)),
        proj_(add<Linear>("proj", model_width, model_width)),
        table_(add_buffer("table", positions == Positions::table ? angles(64, 0) : Tensor())) {}
  int64_t attention_heads() const override { return head_count; }

 private:
  static Tensor angles(int64_t tokens, int64_t first) {
    const Tensor at = cast(arange(tokens), DType::f32) + static_cast<double>(first);
    return unsqueeze(at, 1) * from_vector(std::vector<float>{1, 0.3F}, {1, head_width / 2});
  }
  Tensor turning(int64_t tokens) const {
    if (positions_ == Positions::asked) return angles(tokens, first_token(tokens));
    if (positions_ == Positions::table) return narrow(table_, 0, 0, tokens);
    return angles(tokens, 0);
  }
  Tensor turned(const Tensor& x, const Tensor& angle) const {  // (n, heads, tokens, head_width)
    const Tensor a = narrow(x, 3, 0, head_width / 2),
                 b = narrow(x, 3, head_width / 2, head_width / 2);
    const Tensor c = cos(angle), s = sin(angle);
    return cat({a * c - b * s, a * s + b * c}, 3);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor all = qkv_(x);  // ranks may hold part of the tokens or heads
    const int64_t n = all.size(0), tokens = all.size(1), heads = all.size(2) / (3 * head_width);
    const Tensor parts = permute(reshape(all, {n, tokens, 3, heads, head_width}), {2, 0, 3, 1, 4});
    Tensor q = select(parts, 0, 0), k = select(parts, 0, 1);
    if (positions_ != Positions::none) {
      const Tensor angle = turning(tokens);
      q = turned(q, angle);
      k = turned(k, angle);
    }
    const Tensor y = attention(q, k, select(parts, 0, 2), {.causal = true});
    return proj_(reshape(permute(y, {0, 2, 1, 3}), {n, tokens, heads * head_width}));
  }

  Positions positions_;
  Linear &qkv_, &proj_;
  Tensor table_;
};

class RotaryBlock : public Module {
 public:
  explicit RotaryBlock(Positions positions)
      : Module("RotaryBlock"),
        norm_(add<LayerNorm>("norm", model_width)),
        attn_(add<RotaryAttention>("attn", positions)) {}

 private:
  Tensor forward(const Tensor& x) override { return x + attn_(norm_(x)); }
  LayerNorm& norm_;
  RotaryAttention& attn_;
};

Model rotary(Positions positions) {
  Sequential blocks({RotaryBlock(positions), RotaryBlock(positions)});
  return Model(Sequential({std::move(blocks), Linear(model_width, 3)}));
}

HybridParallelOptions sharing(const char* mode) {
  HybridParallelOptions options = {
      .tensor_plan = {{"0.*.attn.qkv", {.style = SplitStyle::column, .groups = 3}},
                      {"0.*.attn.proj", {.style = SplitStyle::row}}},
      .sequence_parallelism_mode = mode,
      .sequence_blocks = "0.*"};
  const bool by_tensor_ranks = std::string(mode) == "split_gather" || std::string(mode) == "none";
  (by_tensor_ranks ? options.tp_size : options.sp_size) = 2;
  return options;
}

Criterion squares() {
  return [](const Tensor& y, const Tensor&) { return mean(y * y); };
}

// Trains three steps partitioned and alone. Returns "", or the partitioned training's error.
std::string trained_as_one(Positions positions, const HybridParallelOptions& options) {
  manual_seed(2);
  const Model parts = rotary(positions), whole = rotary(positions);
  parts.load_state_dict(whole.state_dict());
  Booster booster({.plugin = HybridParallelPlugin(options, launch_from_env().group())});
  auto [net, optimizer, loss_fn] =
      booster.boost(parts, SGD(parts.parameters(), {.lr = 0.5}), squares());
  SGD alone(whole.parameters(), {.lr = 0.5});
  const Criterion loss = squares();
  return error_of([&] {
    for (uint64_t step = 0; step < 3; ++step) {
      const Tensor x = numbers({4, token_count, model_width}, step);
      const Tensor want = loss(whole(x), x);
      const Batch batch = {x, x};
      const Batch* one = &batch;
      const Tensor got = booster.execute_pipeline(one, net, loss_fn, optimizer);
      CHECK(got.item() == doctest::Approx(want.item()).epsilon(1e-5));
      backward(want);
      alone.step();
      alone.zero_grad();
      optimizer.step();
      optimizer.zero_grad();
    }
    const NoGradGuard no_grad;
    net.eval();
    const Tensor x = numbers({4, token_count, model_width}, 9);
    const Tensor difference = net(x) - whole(x);
    CHECK(amax(abs(difference)).item() < 1e-5);
  });
}

}  // namespace

TEST_CASE("rank: positions" * doctest::skip()) {
  for (const char* mode : {"none", "split_gather", "all_to_all", "ring_attn"})
    for (const bool recompute : {false, true}) {
      HybridParallelOptions options = sharing(mode);
      options.recompute = recompute;
      INFO(mode, ", recompute ", recompute);
      CHECK(trained_as_one(Positions::asked, options) == "");
      CHECK(trained_as_one(Positions::none, options) == "");
    }
  // In these modes attention holds all tokens, so that counting from 0 is right.
  for (const char* mode : {"none", "split_gather", "all_to_all"}) {
    INFO(mode);
    CHECK(trained_as_one(Positions::counted, sharing(mode)) == "");
    CHECK(trained_as_one(Positions::table, sharing(mode)) == "");
  }
}
TEST_CASE("rotary embeddings that ask first_token give what one process gives in every mode") {
  run_ranks("rank: positions", 2);
}

TEST_CASE("rank: positions on stages" * doctest::skip()) {
  HybridParallelOptions options = sharing("ring_attn");
  options.pp_size = 2;
  options.stages = {1, 2};  // the second stage begins within the blocks
  CHECK(trained_as_one(Positions::asked, options) == "");
}
TEST_CASE("positions are right on a stage that begins within the blocks") {
  run_ranks("rank: positions on stages", 4);
}

TEST_CASE("rank: positions not asked for" * doctest::skip()) {
  const auto refusal = [](Positions positions) {
    return trained_as_one(positions, sharing("ring_attn"));
  };
  CHECK(contains(refusal(Positions::counted), "called arange with this rank's number of tokens"));
  const std::string table = refusal(Positions::table);
  CHECK(contains(table, "0.0.attn.table, a buffer of a module within sequence_blocks"));
  CHECK(contains(table, "first_token(tokens)"));
}
TEST_CASE("ring_attn refuses positions that count from 0 on every rank") {
  run_ranks("rank: positions not asked for", 2);
}

TEST_CASE("first_token is 0 where a module has all tokens, and refuses other numbers of them") {
  CHECK(first_token(7) == 0);
  set_token_layout({.all = 12, .first = 8, .here = 4});
  CHECK(first_token(12) == 0);
  CHECK(first_token(4) == 8);
  CHECK(contains(error_of([] { first_token(5); }), "got 5, want the 4 of this rank or all"));
  set_token_layout({});
  take_token_uses();
  CHECK(first_token(5) == 0);
}
