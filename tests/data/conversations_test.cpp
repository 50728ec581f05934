// Conversations and completions as sequences of tokens.
#include "core/data/datasets/token_sequences.h"
#include "tests/data/files.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>

using namespace booster;
using namespace booster::test;

namespace {

Tokenizer gpt2() { return Tokenizer::from_file(golden_folder() + "/text/gpt2.json"); }
Tokenizer llama2() { return Tokenizer::from_file(golden_folder() + "/text/llama2.json"); }

std::optional<ChatTemplate> simple() {
  return ChatTemplate::from_text(
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '|\n' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
}

// Returns the text of the tokens with labels, and of those without, marked by ~.
std::string shown(const Conversations& data, int64_t i, const Tokenizer& tokenizer) {
  std::vector<int64_t> tokens(static_cast<size_t>(data.length(i))), labels(tokens.size());
  data.read(i, 0, tokens, labels);
  std::string text;
  std::vector<int32_t> part;
  const auto flush = [&] {
    text += tokenizer.decode(part, {.skip_special_tokens = false});
    part.clear();
  };
  bool counts = false;
  for (size_t k = 0; k < tokens.size(); ++k) {
    const bool now = k > 0 && labels[k - 1] != ignored_token;
    if (now) CHECK(labels[k - 1] == tokens[k]);
    if (now != counts) {
      flush();
      text += now ? "[" : "]";
    }
    counts = now;
    part.push_back(static_cast<int32_t>(tokens[k]));
  }
  flush();
  return text + (counts ? "]" : "");
}

std::string line_of(const std::vector<std::pair<const char*, std::string>>& messages) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [role, content] : messages)
    list.push_back({{"role", role}, {"content", content}});
  return nlohmann::json{{"messages", list}}.dump() + "\n";
}

}  // namespace

TEST_CASE("only answers have labels, with what ends them") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2();
  const int32_t end = *tokenizer.id_of("<|endoftext|>");
  folder.write(
      "talks.jsonl",
      line_of({{"user", "one"}, {"assistant", "two"}, {"user", "three"}, {"assistant", "four"}}) +
          "\n" + R"({"prompt": "2 + 2 =", "completion": " 4 and more"})" + "\n" +
          R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                       {"role": "user", "content": "c"}],
                       "completion": [{"role": "assistant", "content": "d"}], "id": 3})" +
          "");
  std::string text = folder.read("talks.jsonl");
  // The third line was broken for reading; it is one line in the file.
  for (size_t at = text.rfind("\n   "); at != std::string::npos; at = text.rfind("\n   "))
    text.erase(at, text.find_first_not_of("\n ", at) - at);
  folder.write("talks.jsonl", text);
  const std::string path = (folder / "talks.jsonl").string();
  const Conversations all(path, tokenizer, simple());
  REQUIRE(all.size() == 3);
  CHECK(shown(all, 0, tokenizer) ==
        "<user>one|\n<assistant>[two|]\n<user>three|\n<assistant>[four|]\n");
  CHECK(shown(all, 1, tokenizer) == "2 + 2 =[ 4 and more]");
  CHECK(shown(all, 2, tokenizer) == "<user>a|\n<assistant>b|\n<user>c|\n<assistant>[d|]\n");
  const Conversations last(path, tokenizer, simple(),
                           {.answers = "last", .end_token = end, .threads = 3});
  CHECK(shown(last, 0, tokenizer) ==
        "<user>one|\n<assistant>two|\n<user>three|\n<assistant>[four|]\n<|endoftext|>");
  CHECK(shown(last, 1, tokenizer) == "2 + 2 =[ 4 and more<|endoftext|>]");
  CHECK_FALSE(all.fingerprint() == last.fingerprint());
  CHECK(all.fingerprint() ==
        Conversations(path, tokenizer, simple(), {.threads = 1}).fingerprint());
}

TEST_CASE("drawn conversations give the tokens of the whole text, and labels of the answers") {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"a", "Bc", " ",   "\n", "é", "🙂",
                                          "1", "  ", "the", "|",  "<"};
  const Tokenizer tokenizers[] = {gpt2(), llama2()};
  for (const unsigned seed : testing::draws(100)) {
    std::mt19937 random(seed);
    const auto drawn = [&] {
      std::string text = "x";
      for (unsigned i = random() % 6; i > 0; --i) text += words[random() % words.size()];
      return text;
    };
    const std::string asked = drawn(), answer = drawn(), more = drawn();
    const Tokenizer& tokenizer = tokenizers[random() % 2];
    folder.write("one.jsonl", line_of({{"user", asked}, {"assistant", answer}, {"user", more}}));
    const Conversations data((folder / "one.jsonl").string(), tokenizer, simple());
    const std::string before = "<user>" + asked + "|\n<assistant>",
                      whole = before + answer + "|\n<user>" + more + "|\n";
    const auto want = tokenizer.encode(whole, {.special_tokens = false});
    std::vector<int64_t> tokens(static_cast<size_t>(data.length(0))), labels(tokens.size());
    data.read(0, 0, tokens, labels);
    CHECK(tokens == std::vector<int64_t>(want.begin(), want.end()));
    // Tokens with labels hold the answer and at most parts of a token at each side.
    std::vector<int32_t> counted, uncounted;
    for (size_t k = 0; k < tokens.size(); ++k)
      (k > 0 && labels[k - 1] != ignored_token ? counted : uncounted)
          .push_back(static_cast<int32_t>(tokens[k]));
    CAPTURE(whole);
    CHECK(contains(tokenizer.decode(counted), answer + "|"));
    CHECK(tokenizer.decode(counted).size() <= answer.size() + 12);
    CHECK(data.first_label(0) < data.length(0));
  }
}

TEST_CASE("a line that is no conversation is an error with its file and number") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2();
  const auto error = [&](const std::string& line, ConversationOptions options = {},
                         bool with_template = true) {
    folder.write("bad.jsonl",
                 "\n" + line_of({{"user", "a"}, {"assistant", "b"}}) + line + "\n" + "also bad\n");
    return error_of([&] {
      Conversations((folder / "bad.jsonl").string(), tokenizer,
                    with_template ? simple() : std::nullopt, options);
    });
  };
  for (const auto& [line, says] : std::vector<std::pair<std::string, std::string>>{
           {"{\"messages\": ", "want an object in JSON"},
           {"[]", "want an object in JSON"},
           {R"({"text": "a"})", "want 'messages', or 'prompt' and 'completion'"},
           {R"({"prompt": "a", "completion": ""})", "an empty completion"},
           {R"({"prompt": "a", "completion": [1]})", "an empty completion"},
           {R"({"prompt": [], "completion": "a"})", "want a list of messages"},
           {R"({"messages": "a"})", "want a list of messages"},
           {R"({"messages": ["a"]})", "message 1: want an object"},
           {R"({"messages": [{"role": "user"}]})", "message 1: want a text under 'content'"},
           {line_of({{"user", "a"}, {"asistant", "b"}}),
            "message 2: unknown role; got 'asistant'; want one of system, user, assistant (did you "
            "mean assistant?)"},
           {line_of({{"user", "a"}, {"assistant", ""}}), "message 2: an empty answer"},
           {line_of({{"user", "a"}}), "no answer; want a message of the role assistant"},
           {R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": []}]})",
            "the key 'tool_calls' is not supported"}}) {
    CAPTURE(line);
    const std::string got = error(line);
    CHECK_MESSAGE(contains(got, "bad.jsonl:3: "), got);
    CHECK_MESSAGE(contains(got, says), got);
  }
  CHECK(contains(error("", {}, false), "bad.jsonl:2: messages need a chat template"));
  CHECK(contains(error("", {.answers = "first"}), "answers; got first"));
  const int32_t end = *tokenizer.id_of("<|endoftext|>");
  CHECK(contains(
      error(line_of({{"user", "a<|endoftext|>b"}, {"assistant", "c"}}), {.end_token = end}),
      "bad.jsonl:3: the token that ends documents (<|endoftext|>) lies within"));
  CHECK(contains(error_of([&] { Conversations("/nowhere", tokenizer); }), "/nowhere"));
}
