// ONNX files: the same bytes as those that onnxruntime has run, and its results.
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/config/config.h"
#include "booster/config/pretrained.h"
#include "booster/export/protobuf.h"
#include "core/autograd/tape.h"
#include "core/nn/models.h"
#include "core/nn/models/vit.h"
#include "platform/files/sha256.h"
#include "tests/booster/command.h"
#include "tests/capture_part.h"
#include "tests/checkpoint_contents.h"
#include "tests/error_of.h"
#include "tests/examples/example.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <span>

using namespace booster;
using namespace booster::test;

namespace {

// Returns the values of make_onnx.py, which are exact in f32.
Tensor numbers(const Shape& shape, int64_t salt) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i)
    values[static_cast<size_t>(i)] =
        static_cast<float>((i * 7919 + salt * 31) % 2001 - 1000) / 4096;
  return from_vector(values, shape);
}

Tensor input_of(bool is_text, const Shape& shape) {
  if (!is_text) return numbers(shape, 1);
  std::vector<int64_t> tokens(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i) * 7919 % 61;
  return from_vector(tokens, shape);
}

void fill(const Model& model) {
  const NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (tensor.dtype() != DType::f32) continue;
    Tensor values = numbers(tensor.shape(), static_cast<int64_t>(name.size()));
    if (name.find("running_var") != std::string::npos) values = abs(values) + 0.5;
    tensor.detach().copy_(values);
  }
}

std::string sha256_of(const std::string& bytes) { return sha256(std::as_bytes(std::span(bytes))); }

nlohmann::json golden_models() {
  std::ifstream file(test::golden_folder() + "/booster/onnx.json");
  return nlohmann::json::parse(file);
}

Shape sample_of(const nlohmann::json& input) {
  const auto sizes = input.get<std::vector<int64_t>>();
  return Shape(sizes.data() + 1, sizes.size() - 1);
}

}  // namespace

TEST_CASE("models as ONNX files are those that onnxruntime ran, and give its results") {
  const TemporaryFolder folder;
  const auto cases = golden_models();
  REQUIRE(cases.size() == 7);
  for (const auto& [name, row] : cases.items()) {
    CAPTURE_PART(name);
    const Config config = Config::from_text(nlohmann::json{{"model", row["model"]}}.dump());
    const Model model = make_model(config);
    fill(model);
    model.train();
    const Shape input(row["input"].get<std::vector<int64_t>>());
    // ResNet takes any image size, language models any number of tokens; the graph declares this.
    const bool is_text = row["model"].contains("vocab_size");
    const Shape sample = name == "resnet20" ? Shape{3, 32, 32}
                         : is_text          ? Shape{name == "gpt2" ? 12 : 16}
                                            : sample_of(row["input"]);
    export_onnx(model, sample, folder / "model.onnx");
    CHECK(model->training());
    const std::string bytes = folder.read("model.onnx");
    CHECK(bytes.size() == row["bytes"].get<size_t>());
    CHECK(sha256_of(bytes) == row["sha256"].get<std::string>());  // else make_onnx.py again
    model.eval();
    const NoGradGuard no_grad;
    const Tensor output = model(input_of(is_text, input));
    const auto values = output.to_vector<float>();
    size_t at = 0;
    for (const auto& line : row["outputs"])
      for (const auto& wanted : line)
        CHECK(values.at(at++) == doctest::Approx(wanted.get<double>()).epsilon(1e-5));
    CHECK(at == values.size());
  }
}

TEST_CASE("a model in 16 bits is exported in f32 with its own numbers") {
  const TemporaryFolder folder;
  const Model model = models::mlp({4, 3});
  model->to(DType::bf16);
  export_onnx(model, {4}, folder / "half.onnx");
  model->to(DType::f32);
  export_onnx(model, {4}, folder / "whole.onnx");
  CHECK(folder.read("half.onnx") == folder.read("whole.onnx"));
}

TEST_CASE("a sample that the model does not take is refused in the model's words") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "x.onnx";
  const auto refusal = [&](const Model& model, const Shape& sample) {
    return error_of([&] { export_onnx(model, sample, file); });
  };
  CHECK(contains(refusal(Sequential({Linear(3, 2)}), {5}), "linear: sizes do not match"));
  CHECK(contains(refusal(Sequential({Embedding(3, 2), Linear(2, 2)}), {3}), "embedding: index"));
  CHECK(contains(refusal(Sequential({ReLU()}), {3}), "a model without weights"));
  models::VitOptions small = {.num_classes = 2};
  small.img_size = 16;
  small.depth = 1;
  const Model vit = models::vit("vit_tiny_patch16_224", small);
  CHECK(contains(refusal(vit, {3, 24, 16}), "vit: image has the wrong size"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("export writes the newest checkpoint of a training, with its classes") {
  const Example example;
  REQUIRE(example.run("train.max_steps=1").code == 0);
  const auto file = example.output() / "model.onnx";
  const auto exported =
      run_booster("export '" + example.output().string() + "' '" + file.string() + "'");
  REQUIRE_MESSAGE(exported.code == 0, exported.output);
  CHECK(exported.says("step-000000001"));
  CHECK(exported.says("input (batch, 3, 16, 16)"));
  const std::string bytes = example.read("model.onnx");
  CHECK(bytes.find(R"(["dark","light"])") != std::string::npos);
  CHECK(bytes.find("blocks.11.mlp.fc2.weight") != std::string::npos);
  // The same from the checkpoint itself, and from its weights.
  for (const char* path : {"checkpoint", "checkpoint/step-000000001"}) {
    const auto again =
        run_booster("export '" + (example.output() / path).string() + "' '" + file.string() + "'");
    CHECK_MESSAGE(again.code == 0, again.output);
    CHECK(example.read("model.onnx") == bytes);
  }
  const auto none = run_booster("export '" + example.image("dark").string() + "' x.onnx");
  CHECK(none.code != 0);
  CHECK_MESSAGE(none.says("--config"), none.output);
  CHECK(run_booster("export no_such_folder x.onnx").code == 2);
}

TEST_CASE("export writes a language model's folder, and the one that a training left") {
  const TemporaryFolder folder;
  const Model model = make_model(Config::from_text(
      R"({"model": {"name": "llama", "vocab_size": 31, "max_position_embeddings": 24,
          "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1,
          "num_attention_heads": 2}})"));
  save_pretrained(model, folder / "run/model");
  export_onnx(model, {16}, folder / "wanted.onnx");
  for (const char* source : {"run", "run/model"}) {
    const CommandResult result = run_booster(fmt::format(
        "export '{}' '{}'", (folder / source).string(), (folder / "model.onnx").string()));
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK(result.says("input (batch, 16)"));
    CHECK(folder.read("model.onnx") == folder.read("wanted.onnx"));
  }
  const CommandResult averages =
      run_booster(fmt::format("export '{}' x.onnx --averages", (folder / "run").string()));
  CHECK(averages.code == 2);
  CHECK_MESSAGE(averages.says("no averages in a model's files"), averages.output);
}

TEST_CASE("export takes the averages of a checkpoint where it is asked to") {
  const Example example;
  REQUIRE(example.run("train.max_steps=2 train.ema_decay=0.5 optimizer.lr=0.01").code == 0);
  const auto exported = [&](const std::string& path, const std::string& option) {
    return run_booster("export '" + path + "' '" + (example.output() / "model.onnx").string() +
                       "'" + option);
  };
  const std::string output = example.output().string();
  const auto bytes_of = [](const Tensor& x) {
    return std::string(static_cast<const char*>(x.data()), static_cast<size_t>(x.bytes()));
  };
  const auto checkpoint = load_checkpoint(example.output() / "checkpoint/step-000000002");
  const std::string name = "blocks.3.mlp.fc1.weight";
  const std::string trained = bytes_of(checkpoint.model.at(name));
  const std::string averages = bytes_of(checkpoint.optimizer.at(name + ".average"));
  REQUIRE(trained != averages);
  REQUIRE(exported(output, "").code == 0);
  CHECK(example.read("model.onnx").find(trained) != std::string::npos);
  const CommandResult result = exported(output, " --averages");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("step-000000002 (averages), "));
  CHECK(example.read("model.onnx").find(averages) != std::string::npos);
  CHECK(example.read("model.onnx").find(trained) == std::string::npos);
  const CommandResult file =
      exported(output + "/checkpoint/latest/model.safetensors", " --averages");
  CHECK(file.code == 2);
  CHECK_MESSAGE(file.says("--averages: no averages in a model's files; want a checkpoint"),
                file.output);
}

TEST_CASE("numbers of variable length are those of the encoding's description") {
  const auto encoded = [](uint64_t value) {
    std::string bytes;
    protobuf::append_varint(bytes, value);
    return bytes;
  };
  CHECK(encoded(0) == std::string(1, '\0'));
  CHECK(encoded(127) == "\x7f");
  CHECK(encoded(150) == "\x96\x01");
  CHECK(encoded(~uint64_t{0}) == std::string(9, '\xff') + "\x01");
  CHECK(protobuf::Message().integer(1, -1).bytes() == "\x08" + encoded(~uint64_t{0}));
  CHECK(protobuf::Message().text(2, "testing").bytes() == "\x12\x07testing");
  CHECK(protobuf::Message().number(16, 1.0f).bytes() == std::string("\x85\x01\0\0\x80\x3f", 6));
}
