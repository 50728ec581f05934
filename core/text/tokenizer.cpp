#include "core/text/tokenizer.h"

#include "core/text/added_tokens.h"
#include "core/text/detokenizer.h"
#include "core/text/post_processor.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/unicode/unicode.h"
#include "platform/error.h"
#include "platform/files/sha256.h"
#include "platform/json/json_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace booster {

using namespace text;

struct Tokenizer::Stages {
  Normalizer normalizer;
  AddedTokens added;
  PreTokenizer pre_tokenizer;
  std::shared_ptr<const TokenModel> model;
  PostProcessor post_processor;
  Decoder decoder;
  std::string fingerprint;
};

namespace {

std::string read_text(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad())
    fail_data("Tokenizer: cannot read '{}': {}", path.string(), std::strerror(errno));
  return text;
}

nlohmann::json parsed(std::string_view json, const std::string& name) {
  try {
    return json_from(json);
  } catch (const nlohmann::json::exception& error) {
    fail_data("Tokenizer: '{}' is not JSON: {}", name, error.what());
  }
}

// GPT-2's two files as the tokenizer.json that transformers makes of them.
nlohmann::json from_gpt2_files(const std::filesystem::path& folder) {
  nlohmann::json merges = nlohmann::json::array();
  std::ifstream lines(folder / "merges.txt");
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  if (!lines.eof()) fail_data("Tokenizer: cannot read '{}'", (folder / "merges.txt").string());
  nlohmann::json vocabulary = parsed(read_text(folder / "vocab.json"), folder / "vocab.json");
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  nlohmann::json added = nlohmann::json::array();
  if (const auto end = vocabulary.find("<|endoftext|>"); end != vocabulary.end())
    added.push_back(
        {{"id", *end}, {"content", end.key()}, {"special", true}, {"normalized", true}});
  return {{"added_tokens", added},
          {"pre_tokenizer", byte_level},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", merges}}}};
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  const nlohmann::json whole = parsed(json, name);
  const Description file(whole, name);
  auto stages = std::make_shared<Stages>();
  stages->fingerprint = sha256(std::as_bytes(std::span(json)));
  stages->model = token_model_from(file.member("model"));
  if (file.has("normalizer")) stages->normalizer = normalizer_from(file.member("normalizer"));
  if (file.has("added_tokens"))
    stages->added =
        AddedTokens(file.items("added_tokens"), stages->model->vocabulary(), stages->normalizer);
  if (file.has("pre_tokenizer"))
    stages->pre_tokenizer = pre_tokenizer_from(file.member("pre_tokenizer"));
  stages->post_processor =
      file.has("post_processor") ? post_processor_from(file.member("post_processor")) : joined;
  if (file.has("decoder")) stages->decoder = decoder_from(file.member("decoder"));
  return Tokenizer(std::move(stages));
}

Tokenizer Tokenizer::from_file(const std::string& path) {
  const std::filesystem::path given = path;
  if (!std::filesystem::is_directory(given)) return from_json(read_text(given), path);
  const auto file = given / "tokenizer.json";
  if (std::filesystem::exists(file)) return from_json(read_text(file), file);
  if (std::filesystem::exists(given / "vocab.json") &&
      std::filesystem::exists(given / "merges.txt"))
    return from_json(from_gpt2_files(given).dump(), path);
  fail_data("Tokenizer: '{}' holds no tokenizer; want tokenizer.json, or vocab.json and merges.txt",
            path);
}

std::vector<int32_t> Tokenizer::sequence(std::string_view text) const {
  Pieces pieces = stages_->added.split(valid_utf8(text), stages_->normalizer);
  if (stages_->pre_tokenizer) stages_->pre_tokenizer(pieces);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 3);
  for (const Piece& piece : pieces) {
    if (piece.token)
      tokens.push_back(*piece.token);
    else if (!piece.text.empty())
      stages_->model->encode(piece.text, tokens);
  }
  return tokens;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeTextOptions options) const {
  return stages_
      ->post_processor({.first = sequence(text), .second = {}, .pair = false},
                       options.special_tokens)
      .tokens;
}

Encoded Tokenizer::encode_pair(std::string_view first, std::string_view second,
                               EncodeTextOptions options) const {
  auto [tokens, segments] = stages_->post_processor(
      {.first = sequence(first), .second = sequence(second), .pair = true}, options.special_tokens);
  return {std::move(tokens), std::move(segments)};
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, DecodeTextOptions options) const {
  std::vector<std::string> texts;
  texts.reserve(tokens.size());
  for (const int32_t id : tokens) {
    auto token = token_of(id);
    if (!token || (options.skip_special_tokens && stages_->added.is_special(*token))) continue;
    texts.push_back(std::move(*token));
  }
  if (stages_->decoder) stages_->decoder(texts);
  std::string result;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0 && !stages_->decoder) result += ' ';
    result += texts[i];
  }
  return result;
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const AddedToken* added = stages_->added.token_of(token)) return added->id;
  return stages_->model->vocabulary().id_of(token);
}

std::optional<std::string> Tokenizer::token_of(int32_t id) const {
  if (const AddedToken* added = stages_->added.token_of(id)) return added->content;
  const std::string* token = stages_->model->vocabulary().token_of(id);
  return token ? std::optional(*token) : std::nullopt;
}

int64_t Tokenizer::vocabulary_size() const {
  int64_t size = stages_->model->vocabulary().largest_id() + 1;
  for (const auto& [id, token] : stages_->added.all()) size = std::max<int64_t>(size, id + 1);
  return size;
}

const std::string& Tokenizer::fingerprint() const { return stages_->fingerprint; }

}  // namespace booster
