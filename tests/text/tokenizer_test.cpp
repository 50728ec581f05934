// Tokenisers against Hugging Face's (tests/golden/make_tokenizers.py).
#include "core/text/tokenizer.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

using namespace booster;

namespace {

using Json = nlohmann::json;

const std::vector<std::string> names = {"gpt2",    "llama3", "qwen",       "llama2",
                                        "mistral", "bert",   "many_stages"};

std::string path_of(const std::string& file) { return test::golden_folder() + "/text/" + file; }

std::string read(const std::string& file) {
  std::ifstream stream(path_of(file));
  return {std::istreambuf_iterator<char>(stream), {}};
}

Tokenizer tokenizer(const std::string& name) {
  return Tokenizer::from_file(path_of(name + ".json"));
}

Json description(const std::string& name) { return Json::parse(read(name + ".json")); }

Tokenizer made_of(const Json& json) { return Tokenizer::from_json(json.dump(), "made.json"); }

std::string error_for(const Json& json) {
  return error_of([&] { made_of(json); });
}

std::string drawn_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {"a",
                                                 "B",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "the",
                                                 "tion",
                                                 "ab",
                                                 "1",
                                                 "23",
                                                 "'s",
                                                 "é",
                                                 "日本",
                                                 "🙂",
                                                 "\u2581",
                                                 "<s>",
                                                 "<|endoftext|>",
                                                 "word",
                                                 ".",
                                                 "!",
                                                 "\xFF",
                                                 "\xE2\x96",
                                                 std::string(1, '\0')};
  std::string text;
  for (auto count = random() % 60; count > 0; --count) text += parts[random() % parts.size()];
  return text;
}

}  // namespace

TEST_CASE("tokens and texts are those of Hugging Face's tokenizers") {
  const Json cases = Json::parse(read("cases.json"));
  for (const auto& name : names) {
    const Tokenizer t = tokenizer(name);
    const Json expected = Json::parse(read(name + ".expected.json"));
    REQUIRE(expected.size() == cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(name);
      CAPTURE(cases[i].dump());
      if (cases[i].is_array()) {
        const Encoded pair =
            t.encode_pair(cases[i][0].get<std::string>(), cases[i][1].get<std::string>());
        CHECK(Json(pair.tokens) == expected[i][0]);
        CHECK(Json(pair.segments) == expected[i][1]);
        continue;
      }
      const std::vector<int32_t> tokens = t.encode(cases[i].get<std::string>());
      CHECK(Json(tokens) == expected[i][0]);
      CHECK(t.decode(tokens) == expected[i][1].get<std::string>());
      CHECK(t.decode(tokens, {.skip_special_tokens = false}) == expected[i][2].get<std::string>());
    }
  }
}

TEST_CASE("byte-level tokenisers give every text back") {
  const Tokenizer t = tokenizer("gpt2");
  for (const unsigned seed : testing::draws(400)) {
    std::mt19937 random(seed);
    std::string text = drawn_text(random);
    std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    CAPTURE(text);
    CHECK(t.decode(t.encode(text), {.skip_special_tokens = false}) == text);
  }
}

TEST_CASE("long words are joined as short ones are") {
  // Nothing joins across '|', so a long word of such parts has the parts' tokens.
  const Tokenizer t = tokenizer("gpt2");
  for (const unsigned seed : testing::draws(100)) {
    std::mt19937 random(seed);
    std::string word;
    std::vector<int32_t> tokens;
    for (int part = 0; part < 12; ++part) {
      std::string letters = "|";
      for (auto count = random() % 9; count > 0; --count) letters += "!?.,:"[random() % 5];
      word += letters;
      const auto of_part = t.encode(letters);
      tokens.insert(tokens.end(), of_part.begin(), of_part.end());
    }
    CAPTURE(word);
    CHECK(t.encode(word) == tokens);
  }
}

TEST_CASE("bytes that are not UTF-8 count as U+FFFD") {
  for (const auto& name : names) {
    const Tokenizer t = tokenizer(name);
    CHECK(t.encode("a\xFFz") == t.encode("a\uFFFDz"));
    CHECK(t.encode("\xE2\x96") == t.encode("\uFFFD"));
    CHECK(t.encode("\xED\xA0\x80") == t.encode("\uFFFD\uFFFD\uFFFD"));  // a surrogate
  }
}

TEST_CASE("one tokeniser serves several threads") {
  const Tokenizer t = tokenizer("llama3");
  std::vector<std::string> texts;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    texts.push_back(drawn_text(random));
  }
  const auto all = [&](const Tokenizer& by) {
    std::vector<std::vector<int32_t>> tokens;
    for (const auto& text : texts) tokens.push_back(by.encode(text));
    return tokens;
  };
  const auto expected = all(tokenizer("llama3"));
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { equal += all(t) == expected; });
  for (auto& thread : threads) thread.join();
  CHECK(equal == 4);
}

TEST_CASE("a word of a megabyte takes no longer than its length") {
  const Tokenizer t = tokenizer("gpt2");
  const std::string word(size_t{1} << 20, 'a');
  CHECK(t.decode(t.encode(word)) == word);
}

TEST_CASE("tokens have names and numbers") {
  const Tokenizer t = tokenizer("qwen");
  const auto id = t.id_of("<|im_start|>");
  REQUIRE(id);
  CHECK(t.token_of(*id) == "<|im_start|>");
  CHECK_FALSE(t.id_of("no such token"));
  CHECK_FALSE(t.token_of(-1));
  CHECK_FALSE(t.token_of(1'000'000));
  CHECK(t.vocabulary_size() == 426);
  CHECK(t.decode(std::vector<int32_t>{1'000'000, -5}).empty());
  CHECK(tokenizer("bert").encode("x", {.special_tokens = false}).size() == 1);
}

TEST_CASE("GPT-2's two files make the tokeniser that its tokenizer.json describes") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("booster_gpt2_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  const Json whole = description("gpt2");
  std::ofstream(folder / "vocab.json") << whole["model"]["vocab"].dump();
  std::ofstream merges(folder / "merges.txt");
  merges << "#version: 0.2\n";
  for (const auto& merge : whole["model"]["merges"])
    merges << merge[0].get<std::string>() << ' ' << merge[1].get<std::string>() << '\n';
  merges.close();
  const Tokenizer from_two = Tokenizer::from_file(folder), from_one = tokenizer("gpt2");
  for (const unsigned seed : testing::draws(100)) {
    std::mt19937 random(seed);
    const std::string text = drawn_text(random);
    CHECK(from_two.encode(text) == from_one.encode(text));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that describes something else is refused by name and place") {
  Json json = description("gpt2");
  json["model"]["type"] = "Unigram";
  CHECK(error_for(json) ==
        "made.json.model: unknown type; got 'Unigram'; want one of BPE, WordLevel, WordPiece");
  json = description("bert");
  json["normalizer"]["type"] = "BertNormaliser";
  CHECK(contains(error_for(json), "did you mean BertNormalizer?"));
  json = description("llama3");
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a";
  CHECK(contains(error_for(json), "regular expression '(a' cannot be compiled"));
  json = description("gpt2");
  json["model"]["merges"].push_back({"nowhere", "a"});
  CHECK(contains(error_for(json), "'nowhere' is not in the vocabulary"));
  json = description("gpt2");
  json["model"]["dropout"] = 0.1;
  CHECK(contains(error_for(json), "dropout of merges is not supported"));
  json = description("gpt2");
  json["model"]["vocab"]["a"] = "one";
  CHECK(contains(error_for(json), "want a token's number"));
  CHECK(contains(error_of([] { Tokenizer::from_json("{"); }), "is not JSON"));
  CHECK(contains(error_of([] { Tokenizer::from_file("/no/such/file"); }), "cannot read"));
  CHECK(contains(error_of([] { Tokenizer::from_file("/"); }), "holds no tokenizer"));
}
