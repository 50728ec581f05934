// llama, mistral, qwen2 and qwen3 against Hugging Face (tests/golden/make_decoders.py): folders
// load and are written back; logits, losses, gradients and steps agree.
#include "booster/booster.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/distance.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

using namespace booster;

namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return test::golden_folder() + "/decoders/" + name; }

const std::vector<std::string> all_names = {"llama",         "llama_tied", "llama_linear",
                                            "llama_dynamic", "llama_yarn", "mistral",
                                            "qwen2",         "qwen3"};
const std::vector<std::string> trained_names = {"llama", "mistral", "qwen2", "qwen3"};

TensorMap expected(const std::string& name) {
  return load_safetensors(golden(name) / "expected.safetensors");
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the loss of all tokens except the first, as Hugging Face shifts them.
Tensor next_token_loss(const Tensor& logits, const Tensor& ids) {
  const int64_t tokens = ids.size(1);
  return cross_entropy(flatten(narrow(logits, 1, 0, tokens - 1), 0, 1),
                       flatten(narrow(ids, 1, 1, tokens - 1)));
}

// Writes a config.json with one key changed and returns the error of reading it.
std::string error_with(const std::string& name, const std::string& key, nlohmann::json value) {
  const TemporaryFolder folder;
  nlohmann::json config = nlohmann::json::parse(bytes_of(golden(name) / "config.json"));
  config[key] = std::move(value);
  std::ofstream(folder / "config.json") << config.dump();
  return error_of([&] { model_of_config(folder / "config.json"); });
}

}  // namespace

TEST_CASE("decoders have Hugging Face's logits and losses") {
  for (const auto& name : all_names) {
    CAPTURE(name);
    const TensorMap want = expected(name);
    const Model model = from_pretrained(golden(name));
    const NoGradGuard no_grad;
    const Tensor logits = model(want.at("ids"));
    CHECK(test::distance(logits, want.at("logits")) < 3e-6);
    CHECK(next_token_loss(logits, want.at("ids")).item() ==
          doctest::Approx(want.at("loss").item()).epsilon(3e-6));
    const Model wide = from_pretrained(golden(name), DType::f64);
    CHECK(test::distance(wide(want.at("ids")), want.at("logits")) < 1e-6);
    const Model half = from_pretrained(golden(name), DType::bf16);
    CHECK(test::distance(half(want.at("ids")), want.at("logits")) < 0.06);
  }
}

TEST_CASE("decoders have Hugging Face's gradients and ten steps of AdamW") {
  for (const auto& name : trained_names) {
    CAPTURE(name);
    const TensorMap want = expected(name);
    const Tensor ids = want.at("ids");
    const Model model = from_pretrained(golden(name));
    AdamW optimizer(model.parameters(),
                    {.lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-5, .weight_decay = 0.1});
    const auto losses = want.at("losses").to_vector<double>();
    for (size_t step = 0; step < losses.size(); ++step) {
      optimizer.zero_grad();
      const Tensor loss = next_token_loss(model(ids), ids);
      backward(loss);
      if (step == 0)
        for (const auto& [own, p] : model.parameters()) {
          CAPTURE_PART(own);
          CHECK(test::distance(p.grad(), want.at("gradient." + own)) < 3e-5);
        }
      CHECK(loss.item() == doctest::Approx(losses[step]).epsilon(1e-5));
      optimizer.step();
    }
  }
}

TEST_CASE("folders of decoders are written as Hugging Face writes them, and load again") {
  for (const auto& name : all_names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const Model model = from_pretrained(golden(name));
    std::ofstream(folder / "tokenizer.json") << "{}";
    save_pretrained(model, folder.path());
    CHECK(bytes_of(folder / "model.safetensors") == bytes_of(golden(name) / "model.safetensors"));
    CHECK(fs::exists(folder / "tokenizer.json"));
    const Model again = from_pretrained(folder.path());
    const Tensor ids = expected(name).at("ids");
    const NoGradGuard no_grad;
    CHECK(again(ids).to_vector<float>() == model(ids).to_vector<float>());
    CHECK(config_json_of(again) == config_json_of(model));
  }
}

TEST_CASE("a boosted model in 16 bits is saved whole, and a gpt2 as a folder too") {
  const TemporaryFolder folder;
  const Model model = from_pretrained(golden("llama"), DType::bf16);
  Booster booster;
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  save_pretrained(net, folder / "tuned");
  CHECK(from_pretrained(folder / "tuned", DType::bf16).state_dict().size() ==
        model.state_dict().size());
  CHECK(contains(bytes_of(folder / "tuned" / "config.json"), "\"torch_dtype\": \"bfloat16\""));
  const Model gpt2 = from_pretrained(test::golden_folder() + "/gpt2");
  save_pretrained(gpt2, folder / "gpt2");
  const Model again = from_pretrained(folder / "gpt2");
  CHECK(again.parameters()[3].tensor.to_vector<float>() ==
        gpt2.parameters()[3].tensor.to_vector<float>());
}

TEST_CASE("what a config.json asks for and decoders do not have is refused by name") {
  CHECK(contains(error_with("llama", "model_type", "lama"), "did you mean llama?"));
  CHECK(contains(error_with("llama", "model_type", nullptr), "want a model_type"));
  CHECK(contains(error_with("llama", "hidden_act", "gelu"),
                 R"(hidden_act; got "gelu", want "silu")"));
  CHECK(contains(error_with("llama", "hiden_size", 16), "did you mean hidden_size?"));
  CHECK(error_with("llama", "some_new_flag", false).empty());
  CHECK(contains(error_with("llama", "num_key_value_heads", 3), "do not divide"));
  CHECK(contains(error_with("llama", "vocab_size", "many"), "vocab_size"));
  CHECK(contains(error_with("qwen2", "layer_types", {"sliding_attention", "full_attention"}),
                 "layer_types"));
  CHECK(contains(error_with("llama", "rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}}),
                 "longrope"));
  CHECK(contains(error_with("llama", "rope_parameters", {{"partial_rotary_factor", 0.5}}),
                 "partial_rotary_factor"));
  CHECK(contains(error_of([] { from_pretrained("/no/such"); }), "holds no config.json"));
  const TemporaryFolder folder;
  fs::copy_file(golden("qwen2") / "config.json", folder / "config.json");
  fs::copy_file(golden("llama") / "model.safetensors", folder / "model.safetensors");
  CHECK(contains(error_of([&] { from_pretrained(folder.path()); }), "lacks"));
}

TEST_CASE("names and sizes of decoders are checked") {
  CHECK(contains(error_of([] { models::decoder("lama"); }), "did you mean llama?"));
  CHECK(contains(error_of([] { models::decoder("mistral", {.attention_bias = true}); }),
                 "attention_bias is not an option"));
  CHECK(contains(error_of([] { models::decoder("llama", {.vocab_size = 0}); }), "vocab_size"));
  CHECK(contains(error_of([] { models::decoder("llama", {.rotary = {.scaling = "linar"}}); }),
                 "did you mean linear?"));
}
