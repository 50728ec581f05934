// GPT-2 against Hugging Face: their files load unchanged and are written identically; logits, loss,
// gradients and steps agree.
#include "booster/booster.h"
#include "booster/checkpoint/model_files.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "core/nn/joined_traits.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/checkpoint_contents.h"
#include "tests/distance.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

using namespace booster;
using namespace booster::test;

namespace {

namespace fs = std::filesystem;

// Returns the folder of make_gpt2.py's output; may be overridden with the full-size model.
fs::path gpt2_folder() {
  const char* given = std::getenv("GPT2_GOLDEN");
  return given ? given : test::golden_folder() + "/gpt2";
}

Model made() {
  std::ifstream file(gpt2_folder() / "config.json");
  const auto config = nlohmann::json::parse(file);
  manual_seed(7);
  return models::gpt2("gpt2", {.vocab_size = config["vocab_size"],
                               .n_positions = config["n_positions"],
                               .embd_pdrop = 0,
                               .attn_pdrop = 0,
                               .resid_pdrop = 0,
                               .n_embd = config["n_embd"].get<int64_t>(),
                               .n_layer = config["n_layer"].get<int64_t>(),
                               .n_head = config["n_head"].get<int64_t>()});
}

const Criterion next_token = [](const Tensor& logits, const Tensor& target) {
  return cross_entropy(flatten(logits, 0, 1), flatten(target));
};

struct Gpt2Run {
  Booster booster;
  BoostedTriple boosted;

  explicit Gpt2Run(const Choice<Precision>& precision = "fp32",
                   const Choice<Plugin>& plugin = "single", const Model& model = made())
      : booster({.plugin = plugin, .mixed_precision = precision}),
        boosted(booster.boost(
            model,
            AdamW(model.parameters(),
                  {.lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-5, .weight_decay = 0.1}),
            next_token)) {}

  void load(const fs::path& path, bool strict = true) {
    booster.load_model(boosted.model, path, strict);
  }
  Tensor logits(const Tensor& ids) {
    const NoGradGuard no_grad;
    return boosted.model(ids);
  }
  // Returns the loss over all tokens except the last, as Hugging Face shifts them.
  double backward(const Tensor& ids) {
    const int64_t tokens = ids.size(1);
    boosted.optimizer.zero_grad();
    const Tensor loss = boosted.criterion(boosted.model(narrow(ids, 1, 0, tokens - 1)),
                                          narrow(ids, 1, 1, tokens - 1));
    booster.backward(loss, boosted.optimizer);
    return loss.item();
  }
  Parameters parameters() const { return boosted.model.unwrap().parameters(); }
  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (const auto& [name, p] : parameters()) all.push_back(p.to_vector<float>());
    return all;
  }
};

StoredShapes shapes_of(const TensorMap& tensors) {
  StoredShapes shapes;
  for (const auto& [name, tensor] : tensors)
    shapes[name] = {tensor.shape().begin(), tensor.shape().end()};
  return shapes;
}

// Returns the golden tensors whose names begin with `kind`, in the model's form.
std::map<std::string, Tensor> expected(const TensorMap& all, const Model& model,
                                       const std::string& kind) {
  TensorMap stored;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(kind)) stored.emplace(name.substr(kind.size()), tensor);
  const FileForms forms(model.module(), shapes_of(stored));
  std::map<std::string, Tensor> own;
  for (const auto& [name, tensor] : stored) {
    const NamedTensor one = forms.from_file({name, tensor});
    own.emplace(one.name, one.tensor);
  }
  return own;
}

TensorMap hugging_face() { return load_safetensors(gpt2_folder() / "model.safetensors"); }

}  // namespace

TEST_CASE("a gpt2 has Hugging Face's logits, loss, gradients and ten steps of AdamW") {
  const TensorMap all = load_safetensors(gpt2_folder() / "expected.safetensors");
  Gpt2Run run;
  run.load(gpt2_folder() / "model.safetensors");
  const Tensor ids = all.at("ids");
  const double logits = test::distance(run.logits(select(ids, 0, 0)), all.at("logits"));
  const double loss = run.backward(select(ids, 0, 0)) / all.at("loss").item() - 1;
  CHECK(logits < 1e-6);
  CHECK(std::abs(loss) < 2e-6);
  double gradient = 0, after = 0;
  const auto gradients = expected(all, run.boosted.model.unwrap(), "grad.");
  REQUIRE(gradients.size() == run.parameters().size());
  for (const auto& [name, p] : run.parameters()) {
    CAPTURE_PART(name);
    const double error = test::distance(p.grad(), gradients.at(name));
    CHECK(error < 2e-5);
    gradient = std::max(gradient, error);
  }
  for (int64_t step = 0; step < ids.size(0); ++step) {
    run.backward(select(ids, 0, step));
    run.boosted.optimizer.step();
  }
  const auto weights = expected(all, run.boosted.model.unwrap(), "after.");
  for (const auto& [name, p] : run.parameters()) {
    CAPTURE_PART(name);
    const double error = test::distance(p, weights.at(name));
    CHECK(error < 2e-5);
    after = std::max(after, error);
  }
  MESSAGE("logits ", logits, ", loss ", loss, ", gradients ", gradient, ", weights ", after);
}

TEST_CASE("under bf16 a gpt2's gradients are as near to exact ones as PyTorch's are") {
  const TensorMap all = load_safetensors(gpt2_folder() / "expected.safetensors");
  Gpt2Run run("bf16");
  run.load(gpt2_folder() / "model.safetensors");
  run.backward(select(all.at("ids"), 0, 0));
  const auto gradients = expected(all, run.boosted.model.unwrap(), "grad.");
  double ours = 0, theirs = 0;
  for (const auto& [name, p] : run.parameters()) {
    CAPTURE_PART(name);
    const double error = test::distance(p.grad(), gradients.at(name));
    const double torch_error = all.at("bf16_error." + name).item();
    CHECK(error < 2.5 * torch_error + 1e-3);
    ours += error;
    theirs += torch_error;
  }
  CHECK(ours < 1.2 * theirs);
}

TEST_CASE("a gpt2 is saved as Hugging Face saves it, in one file and in several") {
  const TemporaryFolder folder;
  const TensorMap theirs = hugging_face();
  Gpt2Run run;
  run.load(gpt2_folder());
  run.booster.save_model(run.boosted.model, folder / "one.safetensors");
  run.booster.save_model(run.boosted.model, folder / "some",
                         {.shard = true, .size_per_shard = 0.001});
  const auto bytes = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  CHECK(bytes(folder / "one.safetensors") == bytes(gpt2_folder() / "model.safetensors"));
  TensorMap joined;
  const ModelFiles files = find_model_files(folder / "some");
  CHECK(files.files.size() > 10);
  for (const auto& file : files.files) joined.merge(load_safetensors(file));
  REQUIRE(joined.size() == theirs.size());
  for (const auto& [name, tensor] : theirs) {
    CAPTURE_PART(name);
    REQUIRE(joined.count(name) == 1);
    CHECK(joined.at(name).shape() == tensor.shape());
    CHECK(joined.at(name).to_vector<float>() == tensor.to_vector<float>());
  }
  Gpt2Run again;
  REQUIRE(again.weights() != run.weights());
  again.load(folder / "some");
  CHECK(again.weights() == run.weights());
}

TEST_CASE("a gpt2's weights load from every kind of file that holds them") {
  const TemporaryFolder folder;
  Gpt2Run run;
  run.load(gpt2_folder());
  const auto want = run.weights();
  const auto loads = [&](const TensorMap& tensors) {
    save_safetensors(folder / "some.safetensors", tensors);
    Gpt2Run other;
    other.load(folder / "some.safetensors");
    return other.weights() == want;
  };
  const TensorMap theirs = hugging_face();
  TensorMap published, with_head = theirs;
  for (const auto& [name, tensor] : theirs)
    published[name.substr(std::string("transformer.").size())] = tensor;
  for (const char* block : {"h.0", "h.1"}) {
    published[std::string(block) + ".attn.bias"] = ones({1, 1, 16, 16});
    published[std::string(block) + ".attn.masked_bias"] = full({}, -1e4);
  }
  with_head["lm_head.weight"] = theirs.at("transformer.wte.weight");
  CHECK(loads(theirs));
  CHECK(loads(published));
  CHECK(loads(with_head));
  // A checkpoint has the model's tensors as in memory, however small its files are.
  for (const double size : {1024.0, 0.001}) {
    CAPTURE(size);
    CheckpointContents contents;
    contents.step = 1;
    for (const auto& [name, tensor] : run.boosted.model.unwrap().state_dict())
      contents.model.emplace(name, tensor.detach());
    const fs::path checkpoint =
        save_checkpoint(folder / "checkpoint", contents, {.size_per_shard = size});
    Gpt2Run other;
    other.load(checkpoint / (size > 1 ? "model.safetensors" : "model.safetensors.index.json"));
    CHECK(other.weights() == want);
    fs::remove_all(folder / "checkpoint");
  }
}

TEST_CASE("files that are not this gpt2's are refused, and change nothing") {
  const TemporaryFolder folder;
  const fs::path path = folder / "other.safetensors";
  Gpt2Run run;
  const auto before = run.weights();
  const auto error = [&](TensorMap tensors, bool strict = true) {
    save_safetensors(path, tensors);
    return error_of([&] { run.load(path, strict); });
  };
  TensorMap untied = hugging_face(), short_of_one = hugging_face(), more = hugging_face(),
            wrong = hugging_face();
  untied["lm_head.weight"] = hugging_face().at("transformer.wte.weight") + 1;
  short_of_one.erase("transformer.h.1.mlp.c_fc.weight");
  more["transformer.h.2.ln_1.weight"] = ones({24});
  wrong["transformer.h.0.mlp.c_fc.weight"] = ones({24, 95});
  CHECK(contains(error(untied), "two tensors stand for transformer.wte.weight, and differ"));
  CHECK(contains(error(short_of_one), "transformer.h.1.mlp.c_fc.weight"));
  CHECK(contains(error(more), "transformer.h.2.ln_1.weight"));
  CHECK(contains(error(wrong, false), "transformer.h.0.mlp.c_fc.weight"));
  CHECK(run.weights() == before);
}

namespace {

// Returns every way in which ranks hold parts of a model.
const std::map<std::string, Choice<Plugin>>& ways_to_hold_parts() {
  static const std::map<std::string, Choice<Plugin>> all = {
      {"fsdp", "fsdp"},
      {"tensor", Choice<Plugin>([] { return HybridParallelPlugin({.tp_size = 2})(); })},
      {"pipeline", Choice<Plugin>([] { return HybridParallelPlugin({.pp_size = 2})(); })}};
  return all;
}

}  // namespace

TEST_CASE("rank: a gpt2 in parts loads Hugging Face's file" * doctest::skip()) {
  launch_from_env();
  const TensorMap all = load_safetensors(gpt2_folder() / "expected.safetensors");
  const TensorMap theirs = hugging_face();
  Gpt2Run run("fp32", ways_to_hold_parts().at(std::getenv("TEST_PARTS")));
  run.load(gpt2_folder());
  run.boosted.model.eval();
  CHECK(test::distance(run.logits(select(all.at("ids"), 0, 0)), all.at("logits")) < 1e-6);
  const fs::path saved = fs::path(std::getenv("TEST_ROOT")) / "saved.safetensors";
  run.booster.save_model(run.boosted.model, saved);
  const TensorMap ours = load_safetensors(saved);
  CHECK(ours.size() == theirs.size());
  for (const auto& [name, tensor] : ours)
    CHECK(tensor.to_vector<float>() == theirs.at(name).to_vector<float>());
}

TEST_CASE("a gpt2 that ranks hold in parts has Hugging Face's logits and is saved as theirs") {
  for (const auto& [name, plugin] : ways_to_hold_parts()) {
    CAPTURE_PART(name);
    const TemporaryFolder folder;
    Ranks ranks("rank: a gpt2 in parts loads Hugging Face's file", 2,
                {{"TEST_ROOT", folder.path().string()}, {"TEST_PARTS", name}});
    CHECK(failures(ranks.wait()) == "");
  }
}
