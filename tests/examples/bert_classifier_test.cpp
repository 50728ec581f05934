// The example that fine-tunes a BERT as a classifier of texts, on a small folder.
#include "booster/booster.h"
#include "core/nn/models/bert.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace booster;

namespace {

CommandResult bert_classifier(const std::filesystem::path& folder, const std::string& texts) {
  return run_command(fmt::format("OMP_NUM_THREADS=1 '{}' '{}' '{}' '{}'",
                                 (build_folder() / "examples/bert_classifier").string(),
                                 folder.string(), (folder / texts).string(),
                                 (folder / "tuned").string()));
}

}  // namespace

TEST_CASE("bert_classifier gives a folder a classifier with the labels of its texts") {
  const TemporaryFolder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(test::golden_folder() + "/bert/texts/" + file, folder / file);
  std::filesystem::copy_file(test::golden_folder() + "/text/bert.json", folder / "tokenizer.json");
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "fine\tthe quick fox\npoor\tthe lazy dog sleeps\n";
  folder.write("texts.tsv", lines + "mixed\tthe fox sleeps\n");
  const CommandResult result = bert_classifier(folder.path(), "texts.tsv");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("epoch 2 loss "));
  const Model tuned = from_pretrained(folder / "tuned");
  const auto& bert = dynamic_cast<models::Bert&>(tuned.module());
  CHECK(bert.config.id2label == std::vector<std::string>{"fine", "poor", "mixed"});
  folder.write("bad.tsv", "no tab\n");
  CHECK(bert_classifier(folder.path(), "bad.tsv").says("want a label, a tab and a text"));
}
