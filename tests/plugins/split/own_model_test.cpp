// A model outside the library (examples/own_model) is spread, saved and loaded by its traits alone;
// so is a model that holds one of the library's.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "examples/own_model/patch_encoder.h"
#include "tests/booster/temporary_folder.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;
using own_model::EncoderOptions;
using own_model::PatchEncoder;

namespace {

// 4 patches and 8 classes: an input row holds 16 values.
Model small_encoder(int64_t layers) {
  return PatchEncoder({.num_classes = 8,
                       .channels = 1,
                       .img_size = 4,
                       .patch_size = 2,
                       .features = 64,
                       .layers = layers,
                       .heads = 4});
}

// A ViT's features, and a classifier of the program's own.
class Holder : public Module {
 public:
  Holder() : Module("Holder"), encoder_(add_existing("encoder", features().shared())) {}

 private:
  static Model features() {
    return models::vit("vit_tiny_patch16_224", {.num_classes = 0,
                                                .in_chans = 2,
                                                .img_size = Size2d{6, 2},
                                                .patch_size = 2,
                                                .embed_dim = 64,
                                                .depth = 2,
                                                .num_heads = 4});
  }
  Tensor forward(const Tensor& x) override { return classifier_(encoder_(x)); }
  Module& encoder_;
  Linear& classifier_ = add<Linear>("classifier", 64, 8);
};

// Trains a model in every other strategy, in parts and in one process. `broken`: a parameter that
// is cut, whose part on the last rank has an infinite gradient in one step.
void train_in_parts(const HybridParallelOptions& options, const std::function<Model()>& model,
                    const Spread::Rows& input, const std::string& broken) {
  train_in_turn(
      [&](const Group& world) {
        const PluginMaker plugin = HybridParallelPlugin(options, world);
        const Mesh mesh = plugin()->mesh();
        return Spread{.name = "own model",
                      .plugin = plugin,
                      .model = model,
                      .input = input,
                      .target = [](const Tensor& x) { return narrow(x, 1, 0, 8).clone(); },
                      .shares = mesh.size("data"),
                      .share = mesh.place("data"),
                      .by_pipeline = options.pp_size > 1,
                      .broken = broken,
                      .rate = 0.25,
                      .deeper = 4};
      },
      0);
}

void train_encoder(const HybridParallelOptions& options) {
  train_in_parts(
      options, [] { return small_encoder(3); },
      [](const Tensor& x) {
        return reshape(narrow(x, 1, 0, 16), {-1, 1, 4, 4});
      },
      "layers.2.fc1.weight");
}

}  // namespace

TEST_CASE("rank: own model in parts and stages and tokens" * doctest::skip()) {
  train_encoder({.tp_size = 2,
                 .pp_size = 2,
                 .sequence_parallelism_mode = "split_gather",
                 .pp_style = "zero_bubble"});
}
TEST_CASE("rank: own model in stages and a ring of tokens" * doctest::skip()) {
  train_encoder({.pp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "ring_attn"});
}
TEST_CASE("rank: own model in tensor parts and heads" * doctest::skip()) {
  train_encoder({.tp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
}
TEST_CASE("a model of a program's own trains in parts by its traits as in one process") {
  run_ranks("rank: own model in parts and stages and tokens", 4);
  run_ranks("rank: own model in stages and a ring of tokens", 4);
  run_ranks("rank: own model in tensor parts and heads", 4);
}

TEST_CASE("rank: a model that holds a ViT" * doctest::skip()) {
  train_in_parts(
      {.tp_size = 2, .sequence_parallelism_mode = "split_gather"}, [] { return Model(Holder()); },
      [](const Tensor& x) {
        return reshape(narrow(x, 1, 0, 24), {-1, 2, 6, 2});
      },
      "encoder.blocks.1.mlp.fc1.weight");
}
TEST_CASE("a ViT within a program's own model is spread by the ViT's traits") {
  run_ranks("rank: a model that holds a ViT", 2);
}

TEST_CASE("files of a model of a program's own carry its names, and load") {
  const TemporaryFolder folder;
  Booster booster;
  const Model model = small_encoder(2), other = small_encoder(2);
  const auto boosted = [&](const Model& one) {
    return booster.boost(one, SGD(one.parameters(), {.lr = 0.1})).model;
  };
  const auto file = folder / "model.safetensors";
  booster.save_model(boosted(model), file);
  const TensorMap stored = load_safetensors(file);
  CHECK(stored.contains("encoder.layer.1.attention.in.weight"));
  CHECK(stored.contains("embeddings.bias"));
  CHECK(stored.contains("classifier.weight"));
  CHECK(stored.size() == model.state_dict().size());
  booster.load_model(boosted(other), file);
  const StateDict got = other.state_dict(), want = model.state_dict();
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(got[i].tensor.to_vector<float>() == want[i].tensor.to_vector<float>());
}
