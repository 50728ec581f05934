#include "examples/language_model/byte_tokenizer.h"
#include "examples/language_model/data.h"

#include <array>
#include <vector>

namespace language_model {

using namespace booster;
namespace fs = std::filesystem;

namespace {

constexpr size_t largest_file = size_t{1} << 30;
constexpr std::array tokenizer_files = {"tokenizer.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "chat_template.jinja",
                                        "generation_config.json"};

bool holds_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.json");
}

fs::path folder_of(const fs::path& source) {
  return fs::is_directory(source) ? source : source.parent_path();
}

// Returns eos_token of tokenizer_config.json, which may be a text or an object with one.
std::optional<std::string> eos_of(const fs::path& source) {
  const fs::path file = folder_of(source) / "tokenizer_config.json";
  if (!fs::exists(file)) return std::nullopt;
  const auto config = report::json_of(read_file(file, largest_file));
  if (!config.is_object() || !config.contains("eos_token")) return std::nullopt;
  const auto& eos = config["eos_token"];
  const auto& text = eos.is_object() && eos.contains("content") ? eos["content"] : eos;
  return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
}

std::vector<int32_t> end_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> ends;
  if (vocabulary.document_end) ends.push_back(*vocabulary.document_end);
  if (vocabulary.source.empty()) ends.push_back(*vocabulary.tokenizer->id_of(byte_turn_end));
  return ends;
}

}  // namespace

Vocabulary open_vocabulary(const Config& config, const fs::path& model) {
  const OptionValues data = config.options("data");
  Vocabulary result;
  const auto given = data.given<std::string>("tokenizer");
  if (given)
    result.source = *given;
  else if (!model.empty() && holds_tokenizer(model))
    result.source = model;
  const bool bytes =
      result.source.empty() && data.get<std::vector<std::string>>("token_files").empty();
  if (bytes)
    result.tokenizer = Tokenizer::from_json(byte_tokenizer_json());
  else if (!result.source.empty())
    result.tokenizer = Tokenizer::from_file(result.source.string());
  auto end = data.given<std::string>("document_end");
  if (end && !(result.tokenizer && result.tokenizer->id_of(*end)))
    fail("data.document_end: {}; got {}",
         result.tokenizer ? "no such token" : "no tokeniser knows it (data.tokenizer)",
         terminal_text(*end));
  if (!end && bytes) end = byte_document_end;
  if (!end && result.tokenizer) end = eos_of(result.source);
  if (end) result.document_end = result.tokenizer->id_of(*end);
  return result;
}

std::optional<ChatTemplate> chat_template_of(const Vocabulary& vocabulary) {
  const std::string source = vocabulary.source.string();
  if (source.empty()) {
    const auto config = report::json_of(byte_tokenizer_config());
    return ChatTemplate::from_text(config["chat_template"].get<std::string>());
  }
  const std::string folder = folder_of(source).string();
  return ChatTemplate::is_in(folder) ? std::optional(ChatTemplate::from_file(folder))
                                     : std::nullopt;
}

void save_vocabulary(const Vocabulary& vocabulary, const fs::path& folder) {
  if (!vocabulary.tokenizer) return;
  if (vocabulary.source.empty()) {
    write_file(folder / "tokenizer.json", byte_tokenizer_json());
    write_file(folder / "tokenizer_config.json", byte_tokenizer_config());
  } else {
    for (const char* name : tokenizer_files) {
      const fs::path file = folder_of(vocabulary.source) / name;
      if (fs::exists(file)) write_file(folder / name, read_file(file, largest_file));
    }
  }
  if (const auto ends = end_tokens(vocabulary); !ends.empty() && stop_tokens_of(folder).empty())
    write_file(folder / "generation_config.json",
               nlohmann::json{{"eos_token_id", ends}}.dump(2) + "\n");
}

}  // namespace language_model
