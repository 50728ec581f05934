// The example that trains language models: folders, conversations and packed rows.
#include "tests/capture_part.h"
#include "tests/examples/text_example.h"
#include "tests/golden_folder.h"

#include <cmath>

using namespace booster;

namespace {

// The folder of a model with its tokeniser, made by tests/golden/make_language_model.py.
void copy_golden_model(const TextExample& example) {
  const std::filesystem::path golden = test::golden_folder(), to = example.folder() / "golden";
  std::filesystem::create_directories(to);
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(golden / "language_model" / name, to / name);
  std::filesystem::copy_file(golden / "text/gpt2.json", to / "tokenizer.json");
}

std::string conversations() {
  std::string lines;
  for (const char* colour : {"red", "blue", "green", "pink"})
    for (const char* thing : {"hat", "boat", "ball"}) {
      const auto message = [](const char* role, const std::string& text) {
        return nlohmann::json{{"role", role}, {"content", text}};
      };
      nlohmann::json talk = {message("user", fmt::format("Which {}?", thing)),
                             message("assistant", fmt::format("The {} one.", colour))};
      if (*thing == 'b') {
        talk.push_back(message("user", "Sure?"));
        talk.push_back(message("assistant", "Yes."));
      }
      lines += nlohmann::json{{"messages", talk}}.dump() + "\n";
    }
  return lines;
}

}  // namespace

TEST_CASE("language_model: perplexity and choices are those of transformers, on ranks too") {
  const TextExample example;
  copy_golden_model(example);
  const std::filesystem::path golden =
      std::filesystem::path(test::golden_folder()) / "language_model";
  const auto want = nlohmann::json::parse(std::ifstream(golden / "expected.json"));
  const std::string model = (example.folder() / "golden").string(),
                    tokens = (example.folder() / "text.bin").string();
  REQUIRE(run_booster(
              fmt::format("tokenize '{}' '{}' '{}'", model, tokens, (golden / "text.txt").string()))
              .code == 0);
  const double questions = want["questions"];
  const std::string says[] = {
      fmt::format("{} tokens, loss {:.4f}, perplexity {:.3f}", want["tokens"].get<int>(),
                  want["loss"].get<double>(), want["perplexity"].get<double>()),
      fmt::format("{} questions, accuracy {:.2f} %, by likelihood per byte {:.2f} %", questions,
                  100 * want["right"].get<double>() / questions,
                  100 * want["right_per_byte"].get<double>() / questions)};
  const std::string arguments = fmt::format(
      " --evaluate '{}' --choices '{}' --set inference.folder='{}' --set data.tokens=32", tokens,
      (golden / "choices.jsonl").string(), model);
  const std::string program = (build_folder() / "examples/language_model").string(),
                    booster = (build_folder() / "tools/booster").string();
  for (const char* ranks : {"", "torch_ddp", R"({"name":"hybrid_parallel","tp_size":2})"}) {
    CAPTURE(ranks);
    const std::string before =
        *ranks == 0 ? "" : fmt::format("'{}' run --nproc_per_node 2 ", booster);
    const std::string plugin = *ranks == 0 ? "" : fmt::format(" --set booster.plugin='{}'", ranks);
    const CommandResult result = run_command(
        fmt::format("OMP_NUM_THREADS=1 {}'{}'{}{}", before, program, arguments, plugin));
    CHECK_MESSAGE(result.code == 0, result.output);
    for (const std::string& line : says) CHECK_MESSAGE(result.says(line), result.output);
  }
  example.folder().write("bad.jsonl",
                         "{\"context\": \"a\", \"choices\": [\" b\"], \"answer\": 1}\n");
  const CommandResult bad =
      run_command(fmt::format("'{}' --choices '{}' --set inference.folder='{}'", program,
                              (example.folder() / "bad.jsonl").string(), model));
  CHECK(bad.code == 1);
  CHECK_MESSAGE(bad.says("bad.jsonl:1: answer; got 1, want below 1"), bad.output);
}

TEST_CASE("language_model fine-tunes the folder that it wrote, on conversations, and answers") {
  const TextExample example;
  const std::string no_dropout = "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 ";
  REQUIRE(example.run("model.n_positions=96 train.max_steps=2 " + no_dropout, "base").code == 0);
  example.folder().write("talks.jsonl", conversations());
  const std::string root = example.folder().path().string();
  const std::string sets = fmt::format(
      "data.file=null data.conversations={0}/talks.jsonl train.pretrained={0}/base/model "
      "data.tokens=96 data.validation_fraction=0.3 booster.loss_mean=rows model.n_positions=96 {1}",
      root, no_dropout);
  const CommandResult one =
      example.run(sets + "data.batch_size=4 train.epochs=60 train.max_steps=100", "one");
  REQUIRE_MESSAGE(one.code == 0, one.output);
  const std::vector<double> losses = example.losses("one");
  CHECK(losses.front() > 3);
  CHECK_MESSAGE(losses.back() < 1.5, one.output);
  // Rows of different lengths, of which only answers count, give the same on two ranks.
  const CommandResult two = example.run(
      sets + "data.batch_size=2 train.epochs=60 train.max_steps=4 booster.plugin=torch_ddp", "two",
      "run --nproc_per_node 2");
  REQUIRE_MESSAGE(two.code == 0, two.output);
  const CommandResult again =
      example.run(sets + "data.batch_size=4 train.epochs=60 train.max_steps=4", "again");
  REQUIRE(again.code == 0);
  const double val = example.metrics("again").back()["val_loss"];
  CHECK(example.metrics("two").back()["val_loss"].get<double>() ==
        doctest::Approx(val).epsilon(1e-4));
  // Packed rows too. Attention stays within their documents by itself.
  const std::string pack = sets + "data.pack=true data.batch_size=1 train.max_steps=2 ";
  for (const std::string out : {"packed", "by_hand"}) {
    const CommandResult packed =
        example.run(pack + (out == "packed" ? "" : "model.document_end=256"), out);
    CHECK_MESSAGE(packed.code == 0, packed.output);
  }
  CHECK(example.losses("packed") == example.losses("by_hand"));
  REQUIRE(example.run(pack + "model.document_end=257", "other").code == 0);
  CHECK(example.losses("packed") != example.losses("other"));
  const CommandResult answer = example.run(
      fmt::format("inference.folder={}/one/model inference.prompt=hat inference.chat=true", root));
  CHECK_MESSAGE(answer.code == 0, answer.output);
  CHECK_MESSAGE(answer.says("user: hat\nassistant: "), answer.output);
  const CommandResult tool = run_booster(
      fmt::format("generate '{}/one/model' --prompt 'user: hat' --max-new-tokens 40", root));
  CHECK_MESSAGE(tool.code == 0, tool.output);
}

TEST_CASE("language_model keeps attention within packed documents on every mesh that can") {
  const TextExample example;
  const std::string sets =
      "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 data.file=null data.stories=12 "
      "data.pack=true booster.loss_mean=rows optimizer.lr=0.003 train.max_steps=5 "
      "train.sample_tokens=0 ";
  const auto losses = [&](const std::string& out, int ranks, const std::string& more) {
    const CommandResult result =
        example.run(sets + more, out, fmt::format("run --nproc_per_node {}", ranks));
    REQUIRE_MESSAGE(result.code == 0, result.output);
    return example.losses(out);
  };
  const auto check_same = [](const std::vector<double>& got, const std::vector<double>& want) {
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(2e-6));
  };
  const auto plugin = [](const std::string& mesh) {
    return fmt::format(R"(booster.plugin={{"name":"hybrid_parallel",{}}} )", mesh);
  };
  const std::string across = "data.across_documents=true ", stages = plugin(R"("pp_size":2)");
  const std::vector<double> within = losses("within", 1, ""), all = losses("all", 1, across);
  CHECK(std::abs(within[1] - all[1]) > 5e-5);
  const std::string shared = R"("sp_size":2,"sequence_parallelism_mode":)";
  int number = 0;
  for (const std::string& mesh :
       {std::string(R"("tp_size":2)"), shared + R"("all_to_all")",
        std::string(R"("tp_size":2,"sequence_parallelism_mode":"split_gather")")}) {
    CAPTURE_PART(mesh);
    check_same(losses(fmt::format("mesh{}", ++number), 2, plugin(mesh)), within);
  }
  check_same(losses("stages", 2, across + stages), all);
  check_same(losses("ring", 2, across + plugin(shared + R"("ring_attn")")), all);
  const CommandResult staged = example.run(sets + stages, "staged", "run --nproc_per_node 2");
  CHECK(staged.code == 2);
  CHECK_MESSAGE(staged.says("data.pack: later stages of a pipeline do not see where documents end; "
                            "want data.across_documents=true, or no pipeline"),
                staged.output);
  CHECK_FALSE(example.exists("staged"));
  const CommandResult ring =
      example.run(sets + plugin(shared + R"("ring_attn")"), "refused", "run --nproc_per_node 2");
  CHECK(ring.code == 2);
  CHECK_MESSAGE(ring.says("ring_attn: no rank has all keys of a document"), ring.output);
}
