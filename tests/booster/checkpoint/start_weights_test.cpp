// Models that start from other weights: timm's files, checkpoints, other sizes.
#include "booster/booster.h"
#include "booster/checkpoint/start_weights.h"
#include "tests/booster/temporary_folder.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace booster;
using doctest::Contains;

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

fs::path golden_file(const char* name) {
  return fs::path(test::golden_folder()) / "booster" / name;
}

const fs::path timm_file = golden_file("vit_32.safetensors");

Model vit_for(int64_t side, int64_t classes, int64_t features = 16) {
  manual_seed(1);
  return models::vit("vit_tiny_patch16_224", {.num_classes = classes,
                                              .img_size = side,
                                              .patch_size = 8,
                                              .embed_dim = features,
                                              .depth = 1,
                                              .num_heads = 2});
}

Tensor held(const Model& model, const std::string& name) {
  for (const auto& [own, tensor] : model.state_dict())
    if (own == name) return tensor;
  return {};
}

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

std::vector<float> all_values(const Model& model) {
  std::vector<float> all;
  for (const auto& [name, tensor] : model.state_dict())
    std::ranges::copy(values(tensor), std::back_inserter(all));
  return all;
}

}  // namespace

TEST_CASE("timm's file fills a model of the same sizes") {
  const Model model = vit_for(32, 3);
  const StartWeights what = load_start_weights(model, timm_file);
  CHECK(what.to_string() == "");
  for (const auto& [name, tensor] : load_safetensors(timm_file))
    CHECK(values(held(model, name)) == values(tensor));
}

TEST_CASE("positions are resampled as timm does it, and another head stays as it was made") {
  const TensorMap wanted = load_safetensors(golden_file("vit_32_positions.safetensors"));
  for (const int64_t side : {16, 48}) {
    const Model model = vit_for(side, 5);
    const std::vector<float> head = values(held(model, "head.weight"));
    const StartWeights what = load_start_weights(model, timm_file);
    CHECK(what.resized == Names{"pos_embed"});
    CHECK(what.fresh == Names{"head.weight", "head.bias"});
    CHECK(what.to_string() == "1 resized: pos_embed; 2 new: head.weight, head.bias");
    CHECK(values(held(model, "head.weight")) == head);
    const auto got = values(held(model, "pos_embed"));
    const auto want = values(wanted.at("pos_embed_" + std::to_string(side)));
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
  }
}

TEST_CASE("a model without a head leaves the file's aside") {
  const Model model = vit_for(32, 0);
  const StartWeights what = load_start_weights(model, timm_file);
  CHECK(what.unused == Names{"head.bias", "head.weight"});
}

TEST_CASE("a file that does not fit is refused, and nothing is changed") {
  const TemporaryFolder folder;
  TensorMap tensors = load_safetensors(timm_file);
  tensors.erase("blocks.0.attn.qkv.weight");
  save_safetensors(folder / "lacking.safetensors", tensors);
  tensors = load_safetensors(timm_file);
  tensors["pos_embed"] = zeros({1, 16, 16});
  save_safetensors(folder / "positions.safetensors", tensors);
  const struct {
    Model model;
    fs::path file;
    const char* says;
  } cases[] = {
      {vit_for(32, 3), folder / "lacking.safetensors",
       "lacks 1 tensors of the model: blocks.0.attn.qkv.weight"},
      {vit_for(32, 3, 32), timm_file, "cls_token (got (1, 1, 16), want (1, 1, 32))"},
      {vit_for(32, 3), folder / "positions.safetensors",
       "pos_embed cannot be resized; got shape (1, 16, 16), want (1, 17, 16)"},
      {vit_for(32, 3), folder / "none.safetensors", "none.safetensors"},
  };
  for (const auto& [model, file, says] : cases) {
    const auto before = all_values(model);
    CHECK_THROWS_WITH_AS(load_start_weights(model, file), Contains(says), Error);
    CHECK(all_values(model) == before);
  }
}

TEST_CASE("a config names the weights, and what does not train") {
  const auto config = [](const std::string& model) {
    return Config::from_text(R"({"model": {"name": "vit_tiny_patch16_224", "img_size": 32,
        "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "num_classes": 3, )" +
                             model + "}}");
  };
  std::string told;
  const Model model = make_model(config("\"weights\": \"" + timm_file.string() + R"(",
      "freeze": ["patch_embed", "blocks.*.norm?", "pos_embed"])"),
                                 [&](const std::string& text) { told = text; });
  CHECK(told == "weights: " + timm_file.string());
  CHECK(values(held(model, "norm.bias")) == values(load_safetensors(timm_file).at("norm.bias")));
  Names frozen;
  for (const auto& [name, tensor] : model.parameters())
    if (!tensor.requires_grad()) frozen.push_back(name);
  std::ranges::sort(frozen);
  CHECK(frozen == Names{"blocks.0.norm1.bias", "blocks.0.norm1.weight", "blocks.0.norm2.bias",
                        "blocks.0.norm2.weight", "patch_embed.proj.bias",
                        "patch_embed.proj.weight", "pos_embed"});
  CHECK_THROWS_WITH_AS(make_model(config(R"("freeze": ["pos_embd"])")),
                       Contains("did you mean pos_embed?"), Error);
  CHECK_THROWS_WITH_AS(make_model(config(R"("freeze": ["*"])")), Contains("no parameter remains"),
                       Error);
}
