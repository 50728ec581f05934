#include "core/text/tokenizer.h"

#include "core/text/chat/template_runner.h"
#include "core/text/unicode/unicode.h"
#include "platform/error.h"
#include "platform/files/atomic_file.h"
#include "platform/json/json_text.h"

#include <filesystem>

namespace booster {

using namespace text;
namespace fs = std::filesystem;

struct ChatTemplate::Parsed {
  std::vector<Statement> statements;
  TemplateMap variables;
  std::string name;
  bool marks_answers = false;
};

namespace {

constexpr size_t longest_file = size_t{1} << 28;
constexpr const char* chat_template_file = "chat_template.jinja";

struct Source {
  std::string text, name;
};

fs::path config_of(const fs::path& path) {
  return fs::is_directory(path) ? path / "tokenizer_config.json" : path;
}

nlohmann::json read_config(const fs::path& path) {
  if (!is_there(path)) return nlohmann::json::object();
  auto config = json_if_whole(read_file(path, longest_file));
  if (!config.is_object()) fail_data("ChatTemplate: {}: want an object in JSON", path.string());
  return config;
}

// One text, or several by name, of which "default" is for conversations.
std::string template_in(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const auto& one : *found)
      if (one.is_object() && one.value("name", "") == "default") return one.value("template", "");
  return "";
}

Source source_of(const fs::path& path, const nlohmann::json& config) {
  const fs::path own = config_of(path).parent_path() / chat_template_file;
  if (is_there(own)) return {read_file(own, longest_file), own.string()};
  return {template_in(config), config_of(path).string() + ": chat_template"};
}

// A special token is a text, or an object that holds one.
std::map<std::string, std::string> special_tokens(const nlohmann::json& config) {
  std::map<std::string, std::string> tokens;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    if (found->is_string()) tokens[name] = found->get<std::string>();
    if (found->is_object()) tokens[name] = found->value("content", "");
  }
  return tokens;
}

TemplateValue message_values(std::span<const ChatMessage> messages) {
  TemplateList values;
  for (const ChatMessage& message : messages)
    values.push_back(
        TemplateMap{{"role", valid_utf8(message.role)}, {"content", valid_utf8(message.content)}});
  return values;
}

}  // namespace

ChatTemplate ChatTemplate::from_text(std::string_view source,
                                     const std::map<std::string, std::string>& variables,
                                     const std::string& name) {
  auto parsed = std::make_shared<Parsed>();
  parsed->name = name;
  try {
    parsed->statements = parse_template(source);
  } catch (const Error& error) {
    fail_data("{}: {}", name, error.what());
  }
  parsed->marks_answers = text::marks_answers(parsed->statements);
  for (const auto& [variable, value] : variables) parsed->variables.emplace_back(variable, value);
  for (const char* none : {"tools", "documents"})
    parsed->variables.emplace_back(none, TemplateValue());
  return ChatTemplate(std::move(parsed));
}

ChatTemplate ChatTemplate::from_file(const std::string& path) {
  const nlohmann::json config = read_config(config_of(path));
  const Source source = source_of(path, config);
  if (source.text.empty())
    fail_data(
        "ChatTemplate: '{}' has no chat template; want chat_template in "
        "tokenizer_config.json, or {}",
        path, chat_template_file);
  return from_text(source.text, special_tokens(config), source.name);
}

bool ChatTemplate::is_in(const std::string& path) {
  return !source_of(path, read_config(config_of(path))).text.empty();
}

RenderedChat ChatTemplate::run(std::span<const ChatMessage> messages,
                               ChatRenderOptions options) const {
  TemplateMap variables = parsed_->variables;
  variables.emplace_back("messages", message_values(messages));
  variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
  try {
    TemplateOutput output = run_template(parsed_->statements, variables);
    return {std::move(output.text), std::move(output.answers)};
  } catch (const Error& error) {
    fail_data("{}: {}", parsed_->name, error.what());
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 ChatRenderOptions options) const {
  return run(messages, options).text;
}

RenderedChat ChatTemplate::render_answers(std::span<const ChatMessage> messages,
                                          size_t from) const {
  RenderedChat whole = run(messages, {});
  if (parsed_->marks_answers) {
    size_t before = 0;
    for (size_t i = 0; i < from; ++i) before += messages[i].role == "assistant" ? 1 : 0;
    const size_t dropped = std::min(before, whole.answers.size());
    whole.answers.erase(whole.answers.begin(),
                        whole.answers.begin() + static_cast<std::ptrdiff_t>(dropped));
    return whole;
  }
  for (size_t i = from; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    const std::string before = render(messages.first(i), {.add_generation_prompt = true});
    const std::string after = i + 1 == messages.size() ? whole.text : render(messages.first(i + 1));
    if (!whole.text.starts_with(before) || !whole.text.starts_with(after))
      fail_data(
          "{}: message {} is written differently when others follow it; want answers = last, with "
          "the answer at the end",
          parsed_->name, i + 1);
    const size_t end = after.find_last_not_of(" \t\r\n");
    if (end != std::string::npos && end + 1 > before.size())
      whole.answers.emplace_back(before.size(), end + 1);
  }
  return whole;
}

}  // namespace booster
