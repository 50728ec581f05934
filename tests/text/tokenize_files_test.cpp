// Files of tokens from texts, also when a run is stopped and started again.
#include "core/text/tokenizer.h"
#include "tests/booster/temporary_folder.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <random>

using namespace booster;

namespace {

namespace fs = std::filesystem;

Tokenizer gpt2_tokenizer() {
  return Tokenizer::from_file(test::golden_folder() + "/text/gpt2.json");
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<int32_t> tokens_of(const fs::path& path) {
  const std::string bytes = bytes_of(path);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint16_t token = 0;
    std::memcpy(&token, &bytes[i], 2);
    tokens.push_back(token);
  }
  return tokens;
}

std::string drawn_words(std::mt19937& random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += std::string(1 + random() % 9, static_cast<char>('a' + random() % 26)) + " ";
  return text;
}

struct Stopped {};

}  // namespace

TEST_CASE("documents of lines and of plain texts become their tokens, each with the end token") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2_tokenizer();
  const int32_t end = *tokenizer.id_of("<|endoftext|>");
  write(folder / "lines.jsonl", "{\"text\": \"one\\ntwo\"}\n\n  {\"id\": 3, \"text\": \"three\"}");
  write(folder / "plain.txt", "four<|endoftext|>five six<|endoftext|>");
  const auto result = tokenize_files(tokenizer, {folder / "lines.jsonl", folder / "plain.txt"},
                                     folder / "out.bin", {.end_token = end, .threads = 2});
  std::vector<int32_t> expected;
  for (const char* text : {"one\ntwo", "three", "four", "five six"}) {
    const auto tokens = tokenizer.encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(end);
  }
  CHECK(tokens_of(folder / "out.bin") == expected);
  CHECK(result.documents == 4);
  CHECK(result.tokens == expected.size());
  CHECK(result.bytes_per_token == 2);
  CHECK_FALSE(result.resumed);
  const auto note = nlohmann::json::parse(bytes_of(folder / "out.bin.json"));
  CHECK(note["bytes_per_token"] == 2);
  CHECK(note["tokens"] == expected.size());
  CHECK_FALSE(fs::exists(folder / "out.bin.part"));
  CHECK_FALSE(fs::exists(folder / "out.bin.part.json"));
}

TEST_CASE("a run that was stopped goes on where it was, and gives the same file") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2_tokenizer();
  const TokenizeOptions options = {.end_token = *tokenizer.id_of("<|endoftext|>"), .threads = 2};
  std::mt19937 random(1);
  std::string lines;
  while (lines.size() < (size_t{20} << 20))
    lines += nlohmann::json{{"text", drawn_words(random, 4000)}}.dump() + "\n";
  write(folder / "a.jsonl", lines);
  write(folder / "b.txt", drawn_words(random, 300'000));
  const std::vector<fs::path> texts = {folder / "a.jsonl", folder / "b.txt"};
  tokenize_files(tokenizer, texts, folder / "whole.bin", options);
  for (const int stop_at : {1, 2, 3}) {
    CAPTURE(stop_at);
    TokenizeOptions stopping = options;
    int calls = 0;
    stopping.progress = [&](uint64_t, uint64_t) {
      if (++calls == stop_at) throw Stopped();
    };
    const fs::path out = folder / ("out" + std::to_string(stop_at));
    CHECK_THROWS_AS(tokenize_files(tokenizer, texts, out, stopping), Stopped);
    CHECK_FALSE(fs::exists(out));
    // A resumed run drops bytes after the last note, which a kill may leave.
    std::ofstream(out.string() + ".part", std::ios::app) << "torn";
    CHECK(tokenize_files(tokenizer, texts, out, options).resumed);
    CHECK(bytes_of(out) == bytes_of(folder / "whole.bin"));
  }
  // With other options the run begins again.
  TokenizeOptions stopping = options;
  stopping.progress = [](uint64_t, uint64_t) { throw Stopped(); };
  CHECK_THROWS_AS(tokenize_files(tokenizer, texts, folder / "again.bin", stopping), Stopped);
  CHECK_FALSE(tokenize_files(tokenizer, texts, folder / "again.bin", {}).resumed);
}

TEST_CASE("a tokenisation that had finished writes nothing, until a text changes") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2_tokenizer();
  write(folder / "a.txt", "one two");
  const auto run = [&] {
    return tokenize_files(tokenizer, {folder / "a.txt"}, folder / "out.bin", {.threads = 1});
  };
  const TokenizeResult first = run(), again = run();
  CHECK_FALSE(first.finished);
  CHECK(again.finished);
  CHECK(again.tokens == first.tokens);
  write(folder / "a.txt", "one two three");
  CHECK_FALSE(run().finished);
  fs::remove(folder / "out.bin");
  CHECK_FALSE(run().finished);
}

TEST_CASE("texts that cannot be read are named with file and line") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = gpt2_tokenizer();
  write(folder / "bad.jsonl", "{\"text\": \"fine\"}\n{\"content\": \"not here\"}\n");
  write(folder / "worse.jsonl", "{\"text\": \"fine\"}\nplain\n");
  const auto error = [&](const char* name, const TokenizeOptions& options = {}) {
    return error_of([&] { tokenize_files(tokenizer, {folder / name}, folder / "out", options); });
  };
  CHECK(contains(error("bad.jsonl"), "bad.jsonl:2: want a text under the key 'text'"));
  CHECK(contains(error("worse.jsonl"), "worse.jsonl:2: want an object in JSON"));
  CHECK(contains(error("none.txt"), "no such file"));
  CHECK(contains(error("bad.jsonl", {.end_token = 99'999}), "which is no token"));
  CHECK(contains(error_of([&] { tokenize_files(tokenizer, {}, folder / "out"); }), "no texts"));
  CHECK(error("bad.jsonl", {.text_key = "content"}).find(":1:") != std::string::npos);
}
