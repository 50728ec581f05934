// A model in stages agrees with one process, in every strategy and schedule style.
#include "tests/plugins/pipeline/stages_plugin.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

// Reshapes rows of `features` values to small images.
class Images : public Module {
 public:
  Images() : Module("Images") {}

 private:
  Tensor forward(const Tensor& x) override { return reshape(x, {x.size(0), 2, 4, 4}); }
};

Model transformer() {
  return Sequential({Images(), models::vit("vit_tiny_patch16_224", {.num_classes = features,
                                                                    .in_chans = 2,
                                                                    .img_size = 4,
                                                                    .patch_size = 2,
                                                                    .embed_dim = 32,
                                                                    .depth = 3,
                                                                    .num_heads = 2})});
}

// The first and the last link multiply by the same matrix.
class Tied : public Module {
 public:
  Tied()
      : Module("Tied"),
        weight(add_parameter("weight", normal({features, features}, 0, 0.2))),
        body(add<Sequential>("body")),
        bias(add_parameter("bias", zeros({features}))) {
    for (int i = 0; i < 3; ++i) {
      body.append(Linear(features, features));
      body.append(Tanh());
    }
  }
  const Tensor weight;
  Sequential& body;
  const Tensor bias;
  int link_count() const override { return body.link_count() + 2; }
  Link link(int i) const override {
    if (i == 0) return {"first", {weight}};
    if (i == link_count() - 1) return {"last", {weight, bias}};
    return body.link(i - 1);
  }

 private:
  Tensor forward(const Tensor& x) override { return forward_links(x, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override {
    const int end = link_count() - 1;
    Tensor y = first == 0 ? tanh(linear(x, weight)) : x;
    const int begin_body = std::max(first, 1) - 1, end_body = std::min(last, end) - 1;
    if (begin_body < end_body) y = body.run_links(y, begin_body, end_body);
    return last > end ? linear(y, weight, bias) : y;
  }
};
Model tied() { return Tied(); }

PipelineOptions options_of(PipelineStyle style, int stages) {
  PipelineOptions options = {.style = style, .num_microbatches = 4};
  if (style == PipelineStyle::interleaved) {
    options.num_model_chunks = 2;
    options.num_microbatches = 2 * stages;
  }
  return options;
}

template <PipelineStyle style>
Spread spread(const Group& world) {
  return {.name = name_of(style),
          .plugin = StagesPlugin(world, options_of(style, world.size())),
          .model = network,
          .by_pipeline = true};
}
Spread vit_spread(const Group& world) {
  Spread vit = spread<PipelineStyle::zero_bubble>(world);
  vit.name = "vit";
  vit.model = transformer;
  vit.broken = "1.head.bias";
  vit.deeper = 2;
  return vit;
}
Spread tied_spread(const Group& world) {
  Spread both = spread<PipelineStyle::one_f_one_b>(world);
  both.name = "tied";
  both.model = tied;
  both.broken = "bias";
  return both;
}

}  // namespace

TEST_CASE("rank: gpipe" * doctest::skip()) { train_all(spread<PipelineStyle::gpipe>); }
TEST_CASE("rank: 1f1b" * doctest::skip()) { train_all(spread<PipelineStyle::one_f_one_b>); }
TEST_CASE("rank: interleaved" * doctest::skip()) { train_all(spread<PipelineStyle::interleaved>); }
TEST_CASE("rank: zero bubble" * doctest::skip()) { train_all(spread<PipelineStyle::zero_bubble>); }
TEST_CASE("rank: vit in stages" * doctest::skip()) { train_all(vit_spread); }
TEST_CASE("rank: tied stages" * doctest::skip()) { train_all(tied_spread); }

TEST_CASE("gpipe on two ranks trains as one process in every strategy") {
  run_ranks("rank: gpipe", 2);
}
TEST_CASE("1f1b on two ranks trains as one process in every strategy") {
  run_ranks("rank: 1f1b", 2);
}
TEST_CASE("1f1b on three ranks trains as one process in every strategy") {
  run_ranks("rank: 1f1b", 3);
}
TEST_CASE("interleaved stages on two ranks train as one process in every strategy") {
  run_ranks("rank: interleaved", 2);
}
TEST_CASE("interleaved stages on three ranks train as one process in every strategy") {
  run_ranks("rank: interleaved", 3);
}
TEST_CASE("zero bubble on two ranks trains as one process in every strategy") {
  run_ranks("rank: zero bubble", 2);
}
TEST_CASE("zero bubble on four ranks trains as one process in every strategy") {
  run_ranks("rank: zero bubble", 4);
}
TEST_CASE("a vision transformer in three stages trains as one process in every strategy") {
  run_ranks("rank: vit in stages", 3);
}
TEST_CASE("parameters that two stages share train as in one process in every strategy") {
  run_ranks("rank: tied stages", 2);
  run_ranks("rank: tied stages", 3);
}
