// The programs of docs/guides/cookbook.md, as a user runs them.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/draws.h"
#include "tests/examples/example.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

using namespace booster;

namespace {

struct Cell {
  std::string precision = "fp32", layout = "single";
  std::string arguments() const { return precision + " " + layout; }
};

CommandResult cook(const std::string& program, const Cell& cell, const std::string& more = "",
                   const std::string& folder = "") {
  const std::string build = build_folder().string();
  const std::string ranks = cell.layout == "single"
                                ? ""
                                : fmt::format("'{}/tools/booster' run --nproc_per_node 2 ", build);
  const std::string there = folder.empty() ? "" : fmt::format("cd '{}' && ", folder);
  CommandResult result =
      run_command(fmt::format("{}OMP_NUM_THREADS=1 {}'{}/examples/{}' {} {}", there, ranks, build,
                              program, cell.arguments(), more));
  REQUIRE_MESSAGE(result.code == 0, result.output);
  return result;
}

// Returns the last number after `word` in what a program prints.
double number_after(const CommandResult& result, const std::string& word) {
  const size_t at = result.output.rfind(word + " ");
  REQUIRE_MESSAGE(at != std::string::npos, result.output);
  return std::stod(result.output.substr(at + word.size() + 1));
}

// Calls `test` with the drawn cells.
template <class Test>
void for_drawn(const std::vector<std::string>& precisions, const std::vector<std::string>& layouts,
               Test test) {
  unsigned number = 0;
  for (const std::string& precision : precisions)
    for (const std::string& layout : layouts) {
      if (!testing::is_drawn(number++)) continue;
      CAPTURE(precision);
      CAPTURE(layout);
      test(Cell{precision, layout});
    }
}

const std::vector<std::string> precisions = {"fp32", "fp16", "bf16", "fp8"};
const std::vector<std::string> data_layouts = {"single", "torch_ddp", "low_level_zero", "fsdp"};

}  // namespace

TEST_CASE("cookbook: nanogpt learns to add words, in every precision, on ranks too") {
  const CommandResult result = cook("nanogpt", {});
  CHECK(number_after(result, "loss") < 0.75);
  CHECK_MESSAGE(result.says("4+3=7\n"), result.output);
  for_drawn(precisions, data_layouts,
            [](const Cell& cell) { CHECK(number_after(cook("nanogpt", cell), "loss") < 0.8); });
}

TEST_CASE("cookbook: a llama of one's own gives one process's loss on every layout") {
  const TemporaryFolder folder;
  const CommandResult alone = cook("llama", {}, "", folder.path().string());
  const double loss = number_after(alone, "loss");
  CHECK(loss < 0.9);
  CHECK(number_after(alone, "differ by") < 1e-5);
  for (const char* layout : {"tensor", "pipeline", "ring_attn"})
    CHECK(number_after(cook("llama", {"fp32", layout}, "", folder.path().string()), "loss") ==
          doctest::Approx(loss).epsilon(1e-3));
  for_drawn({"fp32", "bf16", "fp16"},
            {"torch_ddp", "low_level_zero", "fsdp", "split_gather", "all_to_all", "tensor",
             "pipeline"},
            [&](const Cell& cell) {
              const CommandResult result = cook("llama", cell, "", folder.path().string());
              CHECK(number_after(result, "loss") ==
                    doctest::Approx(loss).epsilon(cell.precision == "fp32" ? 1e-3 : 0.2));
            });
}

TEST_CASE("cookbook: lora trains an adapter, writes it with peft's names and merges it") {
  const TemporaryFolder folder;
  for_drawn(precisions, data_layouts, [&](const Cell& cell) {
    const CommandResult result = cook("lora", cell);
    CHECK(number_after(result, "before,") < 0.5 * number_after(result, "loss"));
    CHECK(number_after(result, "merging changes") < 1e-4);
  });
  const std::string adapter = (folder / "adapter.safetensors").string();
  cook("lora", {}, fmt::format("'{}/gpt2' '{}'", test::golden_folder(), adapter));
  const TensorMap tensors = load_safetensors(adapter);
  CHECK(tensors.size() == 4);
  CHECK(tensors.at("base_model.model.transformer.h.1.attn.c_attn.lora_A.weight").shape() ==
        Shape{4, 24});
}

TEST_CASE("cookbook: a table's scores are gathered from all ranks") {
  for_drawn(precisions, data_layouts, [](const Cell& cell) {
    const CommandResult result = cook("table", cell);
    CHECK(number_after(result, "best auc") > 0.97);
    CHECK(number_after(result, "rows") == 300);
  });
  const TemporaryFolder folder;
  folder.write("bad.csv", "a,b\n1,2\n1,x\n");
  const CommandResult bad = run_command(fmt::format("'{}/examples/table' fp32 single '{}'",
                                                    build_folder().string(),
                                                    (folder / "bad.csv").string()));
  CHECK(bad.code != 0);
  CHECK_MESSAGE(bad.says("line 3: want a number; got \"x\""), bad.output);
}

TEST_CASE("cookbook: a gan goes on from its checkpoint bit for bit, in fp16 too") {
  for_drawn(precisions, data_layouts, [](const Cell& cell) {
    const TemporaryFolder whole, parts;
    const CommandResult once = cook("gan", cell, fmt::format("'{}' 40", whole.path().string()));
    cook("gan", cell, fmt::format("'{}' 25", parts.path().string()));
    const CommandResult again = cook("gan", cell, fmt::format("'{}' 40", parts.path().string()));
    CHECK(once.output.substr(once.output.find("step 40")) ==
          again.output.substr(again.output.find("step 40")));
  });
  CHECK(number_after(cook("gan", {}), "distance") < 0.25);
}

TEST_CASE("cookbook: lion trains alike on all plugins") {
  const double loss = number_after(cook("lion", {}), "loss");
  CHECK(loss < 0.2);
  for_drawn({"fp32"}, {"torch_ddp", "low_level_zero", "fsdp"}, [&](const Cell& cell) {
    CHECK(number_after(cook("lion", cell), "loss") == doctest::Approx(loss).epsilon(0.02));
  });
  for_drawn(precisions, {"low_level_zero", "fsdp"},
            [](const Cell& cell) { CHECK(number_after(cook("lion", cell), "accuracy") > 95); });
}

TEST_CASE("cookbook: images are classified, and a second run resumes") {
  for_drawn(precisions, data_layouts, [](const Cell& cell) {
    const TemporaryFolder folder;
    const std::string arguments = fmt::format("'{}' '' '{}'", (folder / "images").string(),
                                              (folder / "out").string());
    CHECK(number_after(cook("image_classifier", cell, arguments), "accuracy") > 70);
    CHECK(std::filesystem::exists(folder / "out"));
  });
}

TEST_CASE("cookbook: the head of a frozen ViT is trained, averaged and written as ONNX") {
  const TemporaryFolder folder;
  const CommandResult result =
      cook("vit_head", {}, "'" + (folder / "head.onnx").string() + "'");
  CHECK(number_after(result, "accuracy") > 60);
  CHECK(std::filesystem::file_size(folder / "head.onnx") > 1000);
  for_drawn(precisions, data_layouts, [](const Cell& cell) {
    CHECK(number_after(cook("vit_head", cell), "accuracy") > 60);
  });
}

TEST_CASE("cookbook: surgery leaves a model that trains") {
  for_drawn(precisions, data_layouts, [](const Cell& cell) {
    const CommandResult result = cook("surgery", cell);
    CHECK(result.says("19 norms replaced, 0 buffers left"));
    CHECK(number_after(result, "accuracy") > 80);
  });
}

TEST_CASE("cookbook: a library's strategy and plugin train as bf16 and torch_ddp do") {
  const std::string library = (build_folder() / "examples/libown_library.so").string();
  const auto losses = [&](const std::string& plugin, const std::string& precision) {
    const Example example;
    const CommandResult result = example.run(
        fmt::format("booster.libraries=[\"{}\"] booster.plugin={} booster.mixed_precision={} "
                    "train.epochs=4",
                    library, plugin, precision),
        "run --nproc_per_node 2");
    REQUIRE_MESSAGE(result.code == 0, result.output);
    std::vector<double> all;
    for (const nlohmann::json& line : example.metric_lines())
      if (line.contains("loss")) all.push_back(line["loss"]);
    return all;
  };
  const auto own = losses("plain_ddp", "bf16_watched"), torch = losses("torch_ddp", "bf16");
  REQUIRE(own.size() > 2);
  REQUIRE(own.size() == torch.size());
  for (size_t i = 0; i < own.size(); ++i) CHECK(own[i] == doctest::Approx(torch[i]).epsilon(1e-4));
}

TEST_CASE("cookbook: the README's loop learns") {
  CHECK(number_after(run_command(fmt::format("OMP_NUM_THREADS=1 '{}/examples/mlp' bf16",
                                             build_folder().string())),
                     "accuracy") > 95);
}
