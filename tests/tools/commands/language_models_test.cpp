// `booster tokenize` and `booster generate`, run as a user runs them.
#include "booster/config/pretrained.h"
#include "core/nn/generate.h"
#include "core/nn/models.h"
#include "core/text/tokenizer.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace booster;

namespace {

// A folder of transformers: the golden llama with a tokeniser of words "w0" to "w39".
void write_model(const TemporaryFolder& folder) {
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(test::golden_folder() + "/decoders/llama/" + file, folder / file);
  nlohmann::json words;
  for (int i = 0; i < 40; ++i) words["w" + std::to_string(i)] = i;
  const nlohmann::json tokenizer = {
      {"model", {{"type", "WordLevel"}, {"vocab", words}, {"unk_token", "w0"}}},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
  folder.write("tokenizer.json", tokenizer.dump());
}

}  // namespace

TEST_CASE("generate prints what the model writes, and stops where it is told") {
  const TemporaryFolder folder;
  write_model(folder);
  const std::string model = folder.path().string();
  const Tokenizer tokenizer = Tokenizer::from_file(model);
  // The golden config.json ends texts with token 2.
  const auto texts = generate(from_pretrained(model), {tokenizer.encode("w5 w9")},
                              {.max_new_tokens = 6, .stop_tokens = {2}});
  const std::string expected = tokenizer.decode(texts[0]) + "\n";
  const std::string call = "generate " + model + " --prompt 'w5 w9' --max-new-tokens 6";
  const CommandResult greedy = run_booster(call);
  CHECK(greedy.code == 0);
  CHECK(greedy.output == expected);
  const CommandResult echoed = run_booster(call + " --echo");
  CHECK(echoed.output == "w5 w9" + expected);
  const std::string second = tokenizer.decode(std::vector<int32_t>{texts[0].at(1)});
  const CommandResult stopped = run_booster(call + " --stop " + second);
  CHECK(stopped.output.size() < greedy.output.size());
  CHECK_FALSE(stopped.says(second));
  // A stop may take several tokens: none of its beginning is printed.
  const auto decoded = [&](size_t from, size_t to) {
    return tokenizer.decode(
        std::vector<int32_t>(texts[0].begin() + static_cast<std::ptrdiff_t>(from),
                             texts[0].begin() + static_cast<std::ptrdiff_t>(to)));
  };
  REQUIRE(texts[0].size() >= 4);
  const std::string pair = decoded(2, 4);
  CHECK(run_booster(call + " --stop '" + pair + "'").output ==
        decoded(0, 4).substr(0, decoded(0, 4).find(pair)) + "\n");
  CHECK(run_booster(call + " --stop '" + pair + " no'").output == expected);
  const std::string drawn = call + " --temperature 1.5 --top-k 20 --top-p 0.95 --seed 4";
  CHECK(run_booster(drawn).output == run_booster(drawn).output);
  CHECK(run_booster(call + " --dtype bf16").code == 0);
}

TEST_CASE("generate says what is wrong with its folder, prompt and options") {
  const TemporaryFolder folder;
  write_model(folder);
  const std::string model = folder.path().string();
  CHECK(run_booster("generate /no/such --prompt a").says("no such folder; got \"/no/such\""));
  CHECK(run_booster("generate /no/such --prompt a").code == 1);
  CHECK(run_booster("generate " + model + " --prompt ''").says("no tokens"));
  CHECK(run_booster("generate " + model + " --prompt w1 --dtype fp31").says("did you mean fp32?"));
  CHECK(run_booster("generate " + model + " --prompt w1 --top-p 2 --temperature 1")
            .says("want in (0, 1]"));
  CHECK(run_booster("generate " + model + " --prompt w1 --top-k 2").says("want a --temperature"));
  CHECK(run_booster("generate " + model + " --prompt w1 --temperature -1").says("want 0 or more"));
  CHECK(run_booster("generate " + model + " --prompt w1 --temperature nan").says("want 0 or more"));
  CHECK(run_booster("generate " + model + " --prompt w1 --stop ''").says("--stop is empty"));
  CHECK(run_booster("generate " + model + " --prompt w1 --max-new-tokens -1").code != 0);
  CHECK(run_booster("generate " + model + " --prompt w1 --beams 4").code == 2);
  CHECK(run_booster("generate " + model).code == 2);
  // Rotary positions go on; the model has learned 64.
  const CommandResult beyond =
      run_booster("generate " + model + " --prompt w1 --max-new-tokens 70");
  CHECK(beyond.code == 0);
  CHECK(beyond.says("the text may reach 71 tokens, and the model has learned 64 positions"));
  std::filesystem::remove(folder / "tokenizer.json");
  CHECK(run_booster("generate " + model + " --prompt w1").says("holds no tokenizer"));
}

TEST_CASE("generate refuses a text for which a gpt2 has too few positions before it writes") {
  const TemporaryFolder folder;
  write_model(folder);
  save_pretrained(
      models::gpt2("gpt2",
                   {.vocab_size = 40, .n_positions = 8, .n_embd = 8, .n_layer = 1, .n_head = 1}),
      folder.path());
  const std::string call = "generate " + folder.path().string() + " --prompt 'w5 w9' --echo";
  CHECK(run_booster(call + " --max-new-tokens 7").code == 0);
  const CommandResult refused = run_booster(call + " --max-new-tokens 8");
  CHECK(refused.code != 0);
  CHECK(refused.says("gpt2: more tokens than positions; got 9, want at most 8"));
}

TEST_CASE("generate ends when its reader does, and in every CPU variant") {
  const TemporaryFolder folder;
  write_model(folder);
  const std::string call =
      "generate " + folder.path().string() + " --prompt 'w5 w9' --max-new-tokens 40 --dtype bf16";
  CHECK(run_booster(call + " | head -c 1").output.size() == 1);
  CHECK(run_command("export BOOSTER_CPU_VARIANT=portable; '" +
                    (build_folder() / "tools/booster").string() + "' " + call)
            .code == 0);
}

TEST_CASE("tokenize writes a file of tokens and says what it wrote") {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("a.txt", "w1 w2 w3");
  folder.write("b.jsonl", "{\"body\": \"w4\"}\n{\"body\": \"w5 w6\"}\n");
  const std::string model = folder.path().string(), out = model + "/out.bin";
  const CommandResult done = run_booster("tokenize " + model + " " + out + " " + model + "/a.txt " +
                                         model + "/b.jsonl --text-key body --end-token w39");
  CHECK(done.code == 0);
  CHECK(done.says("9 tokens of 2 bytes each from 3 documents"));
  const std::string tokens("\1\0\2\0\3\0\x27\0\4\0\x27\0\5\0\6\0\x27\0", 18);
  CHECK(folder.read("out.bin") == tokens);
  CHECK(run_booster("tokenize " + model + " " + out + " " + model + "/c.txt").says("no such file"));
  CHECK(run_booster("tokenize " + model + " " + out + " " + model + "/b.jsonl")
            .says("b.jsonl:1: want a text under the key 'text'"));
  CHECK(run_booster("tokenize " + model + " " + out + " " + model + "/a.txt --end-token w99")
            .says("no such token; got w99"));
}
