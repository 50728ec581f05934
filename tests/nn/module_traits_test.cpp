// What models say about themselves, also as parts of larger models.
#include "core/nn/joined_traits.h"
#include "core/nn/module_traits.h"

#include "core/nn/models.h"
#include "core/nn/models/gpt2.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

Model vit(int64_t classes) {
  return models::vit(
      "vit_tiny_patch16_224",
      {.num_classes = classes, .img_size = 32, .embed_dim = 24, .depth = 2, .num_heads = 3});
}

Model gpt2() {
  return models::gpt2("gpt2",
                      {.vocab_size = 7, .n_positions = 4, .n_embd = 8, .n_layer = 1, .n_head = 2});
}

class Holder : public Module {
 public:
  Holder(const std::string& name, const Model& model) : Module("Holder") {
    add_existing(name, model.shared());
  }
  void hold(const std::string& name, const Model& model) { add_existing(name, model.shared()); }

 private:
  Tensor forward(const Tensor& x) override { return x; }
};

using Names = std::vector<std::string>;

Names patterns(const TensorPlan& plan) {
  Names names;
  for (const auto& [pattern, layer] : plan) names.push_back(pattern);
  return names;
}

}  // namespace

TEST_CASE("traits of a part hold in a larger model, under the part's name") {
  const Model image = vit(5);
  const ModuleTraits own = image->traits();
  CHECK(own.blocks == "blocks.*");
  CHECK(own.tokens == 5);
  CHECK(own.features == 24);
  CHECK(own.position_free);
  Holder holder("encoder", image);
  const ModuleTraits all = joined_traits(holder);
  CHECK(all.blocks == "encoder.blocks.*");
  CHECK(all.tokens == 5);
  CHECK(all.heads == Names{"encoder.head"});
  CHECK(all.position_grids == Names{"encoder.pos_embed"});
  CHECK(all.no_weight_decay == Names{"encoder.cls_token", "encoder.pos_embed"});
  CHECK(patterns(all.tensor_plan).front() == "encoder.blocks.*.attn.qkv");
  CHECK(all.tensor_plan.size() == own.tensor_plan.size());
  CHECK_FALSE(all.position_free);  // the larger model may use positions, or the blocks' parameters
}

TEST_CASE("a model without a head plans none") {
  const Model image = vit(0);
  CHECK(image->traits().tensor_plan.size() == 4);
}

TEST_CASE("two models with blocks in one have no region of blocks, but both plans") {
  Holder holder("image", vit(5));
  holder.hold("text", gpt2());
  const ModuleTraits all = joined_traits(holder);
  CHECK(all.blocks.empty());
  CHECK(all.tensor_plan.size() == 10);
}

TEST_CASE("a chain of linear layers has a plan, but not as a part that may be called in pieces") {
  const Model chain = models::mlp({4, 8, 6, 8});
  CHECK(patterns(chain->traits().tensor_plan) == Names{"0", "2"});
  CHECK(chain->example_input(3).shape() == Shape{3, 4});
  Holder holder("chain", chain);
  CHECK(joined_traits(holder).tensor_plan.empty());
  const Model apart = Sequential({Linear(4, 8), LayerNorm(8), Linear(8, 4)});
  CHECK(apart->traits().tensor_plan.empty());
}

TEST_CASE("a GPT-2 within a larger model keeps Hugging Face's form in files") {
  Holder holder("text", gpt2());
  const std::string name = "text.transformer.h.0.mlp.c_fc.weight";
  const Tensor weight = zeros({32, 8});
  const NamedTensor stored = FileForms(holder).to_file({name, weight});
  CHECK(stored.name == name);
  CHECK(stored.tensor.shape() == Shape{8, 32});
  const FileForms forms(holder,
                        {{name, {8, 32}}, {"text.transformer.h.0.attn.c_attn.weight", {8, 24}}});
  const NamedTensor own = forms.from_file({"text.h.0.mlp.c_fc.weight", stored.tensor});
  CHECK(own.name == name);
  CHECK(own.tensor.shape() == Shape{32, 8});
  CHECK(forms.from_file({"other", weight}).name == "other");
}

TEST_CASE("renamed() changes beginnings of names, both ways") {
  const FileForm form = renamed({{"blocks.", "encoder.layer."}, {"head.", "classifier."}});
  CHECK(form.to_file({"blocks.3.fc.weight", {}}).name == "encoder.layer.3.fc.weight");
  CHECK(form.from_file({"classifier.bias", {}}, {}).name == "head.bias");
  CHECK(form.to_file({"norm.weight", {}}).name == "norm.weight");
}
