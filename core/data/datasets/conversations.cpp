#include "core/data/datasets/token_sequences.h"

#include "platform/error.h"
#include "platform/files/file.h"
#include "platform/json/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace booster {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

std::vector<ChatMessage> messages_of(const Json& list) {
  if (!list.is_array()) fail_data("want a list of messages");
  std::vector<ChatMessage> messages;
  for (const Json& one : list) {
    const auto text = [&](const char* key) -> std::string {
      const auto found = one.find(key);
      if (found == one.end() || !found->is_string())
        fail_data("message {}: want a text under '{}'", messages.size() + 1, key);
      return found->get<std::string>();
    };
    if (!one.is_object()) fail_data("message {}: want an object", messages.size() + 1);
    for (const auto& [key, value] : one.items())
      if (key != "role" && key != "content" && !value.is_null())
        fail_data("message {}: the key '{}' is not supported; want role and content",
                  messages.size() + 1, key);
    ChatMessage message{text("role"), text("content")};
    const std::vector<std::string> roles = {"system", "user", "assistant"};
    if (std::ranges::find(roles, message.role) == roles.end())
      fail_data("message {}: unknown role; got '{}'{}", messages.size() + 1, message.role,
                legal_names(message.role, roles));
    if (message.role == "assistant" && message.content.empty())
      fail_data("message {}: an empty answer", messages.size() + 1);
    messages.push_back(std::move(message));
  }
  return messages;
}

// Turns one line into tokens.
class LineReader {
 public:
  LineReader(const Tokenizer& tokenizer, const std::optional<ChatTemplate>& chat_template,
             const ConversationOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  // Returns the tokens; ~token of those without a label.
  Tokens tokens_of(const std::string& line) const {
    const Json json = json_if_whole(line);
    if (!json.is_object()) fail_data("want an object in JSON");
    Tokens tokens;
    if (json.contains("messages")) {
      tokens = conversation(messages_of(json["messages"]), 0);
    } else if (json.contains("prompt") && json.contains("completion")) {
      tokens = json["prompt"].is_string() ? completion(json["prompt"], json["completion"])
                                          : continued(json["prompt"], json["completion"]);
    } else {
      fail_data("want 'messages', or 'prompt' and 'completion'");
    }
    check_ends(tokens);
    return tokens;
  }

 private:
  Tokens completion(const std::string& prompt, const Json& json) const {
    if (!json.is_string() || json.get<std::string>().empty())
      fail_data("an empty completion; want a text after a prompt that is one");
    const std::string answer = json.get<std::string>(), text = prompt + answer;
    Tokens tokens = labelled(text, {{prompt.size(), text.size()}}, true);
    if (options_.end_token && tokens.back() != *options_.end_token)
      tokens.push_back(*options_.end_token);
    return tokens;
  }

  Tokens continued(const Json& prompt, const Json& completion) const {
    std::vector<ChatMessage> messages = messages_of(prompt);
    const size_t from = messages.size();
    for (ChatMessage& message : messages_of(completion)) messages.push_back(std::move(message));
    return conversation(messages, from);
  }

  Tokens conversation(std::vector<ChatMessage> messages, size_t from) const {
    if (!chat_template_)
      fail_data("messages need a chat template (tokenizer_config.json); there is none");
    const auto last = std::ranges::find(messages.rbegin(), messages.rend(),
                                        std::string("assistant"), &ChatMessage::role);
    const auto place = static_cast<size_t>(messages.rend() - last);  // from 1; 0: none
    if (place <= from) fail_data("no answer; want a message of the role assistant");
    if (options_.answers == "last") {
      messages.resize(place);  // what follows it has no label
      from = place - 1;
    }
    const RenderedChat chat = chat_template_->render_answers(messages, from);
    if (chat.answers.empty()) fail_data("the template writes no answer");
    Tokens tokens = labelled(chat.text, chat.answers, false);
    if (options_.end_token && tokens.back() != *options_.end_token &&
        tokens.back() != ~*options_.end_token)
      tokens.push_back(~*options_.end_token);
    return tokens;
  }

  // A token that joins text and answer is the answer's.
  Tokens labelled(const std::string& text, const std::vector<std::pair<size_t, size_t>>& answers,
                  bool special_tokens) const {
    const EncodeTextOptions encoding{.special_tokens = special_tokens};
    const Tokens all = tokenizer_.encode(text, encoding);
    // Returns how many tokens lie before a place of the text, and whether a token goes across it.
    const auto before = [&](size_t place) {
      if (place >= text.size()) return std::pair(all.size(), false);
      const Tokens part = tokenizer_.encode(std::string_view(text).substr(0, place), encoding);
      const auto [a, b] = std::ranges::mismatch(all, part);
      return std::pair(static_cast<size_t>(a - all.begin()), b != part.end());
    };
    Tokens tokens;
    for (const int32_t token : all) tokens.push_back(~token);
    for (const auto& [begin, end] : answers) {
      const size_t first = before(begin).first;
      const auto [past, across] = before(end);
      for (size_t i = first; i < std::min(past + (across ? 1 : 0), all.size()); ++i)
        tokens[i] = all[i];
    }
    const bool has_label =
        std::any_of(tokens.begin(), tokens.end(), [](int32_t t) { return t >= 0; });
    if (!has_label) fail_data("an answer without tokens");
    return tokens;
  }

  // Packing counts end tokens, so none may lie within a sequence.
  void check_ends(const Tokens& tokens) const {
    if (!options_.end_token) return;
    const int32_t end = *options_.end_token;
    const auto found = std::find_if(tokens.begin(), tokens.end(),
                                    [&](int32_t token) { return token == end || token == ~end; });
    if (found < tokens.end() - 1)
      fail_data(
          "the token that ends documents ({}) lies within the conversation, as token {}; "
          "want another one as end_token",
          tokenizer_.token_of(end).value_or(std::to_string(end)), found - tokens.begin());
  }

  const Tokenizer& tokenizer_;
  const std::optional<ChatTemplate>& chat_template_;
  const ConversationOptions& options_;
};

struct NumberedLine {
  size_t number;  // from 1
  std::string text;
};

std::vector<NumberedLine> lines_of(const std::string& path) {
  const std::string text = read_file(path, size_t{1} << 40);
  std::vector<NumberedLine> lines;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      lines.push_back({number, std::move(line)});
    begin = end + 1;
  }
  if (lines.empty()) fail_data("Conversations: '{}' has no line", path);
  return lines;
}

// Reads lines with several threads. Throws the error of the first line that has one.
std::vector<Tokens> read_lines(const std::string& path, const std::vector<NumberedLine>& lines,
                               const LineReader& reader, int threads) {
  std::vector<Tokens> all(lines.size());
  std::atomic<size_t> next = 0, failed = lines.size();
  std::mutex mutex;
  std::string problem;
  const auto work = [&] {
    for (size_t i = next++; i < failed; i = next++) {
      try {
        all[i] = reader.tokens_of(lines[i].text);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (i >= failed) continue;
        failed = i;
        problem = error.what();
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (failed < lines.size()) fail_data("{}:{}: {}", path, lines[failed].number, problem);
  return all;
}

}  // namespace

Conversations::Conversations(const std::string& path, const Tokenizer& tokenizer,
                             const std::optional<ChatTemplate>& chat_template,
                             const ConversationOptions& options) {
  check(options.answers == "all" || options.answers == "last", "Conversations: answers; got {}{}",
        options.answers, legal_names(options.answers, {"all", "last"}));
  const int threads = options.threads > 0
                          ? options.threads
                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto lines = lines_of(path);
  const LineReader reader(tokenizer, chat_template, options);
  for (const Tokens& tokens : read_lines(path, lines, reader, threads)) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    begins_.push_back(tokens_.size());
  }
}

std::span<const int32_t> Conversations::tokens_of(int64_t sequence) const {
  const auto i = static_cast<size_t>(sequence);
  return std::span(tokens_).subspan(begins_.at(i), begins_.at(i + 1) - begins_.at(i));
}

int64_t Conversations::length(int64_t sequence) const {
  return static_cast<int64_t>(tokens_of(sequence).size());
}

void Conversations::read(int64_t sequence, int64_t start, std::span<int64_t> tokens,
                         std::span<int64_t> labels) const {
  const auto all = tokens_of(sequence).subspan(static_cast<size_t>(start));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = all[i] < 0 ? ~all[i] : all[i];
    labels[i] = i + 1 < all.size() && all[i + 1] >= 0 ? all[i + 1] : ignored_token;
  }
}

int64_t Conversations::first_label(int64_t sequence) const {
  const auto all = tokens_of(sequence);
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i] >= 0) return static_cast<int64_t>(i) - 1;
  return static_cast<int64_t>(all.size());
}

uint64_t Conversations::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.add(size());
  fingerprint.add(
      {reinterpret_cast<const char*>(tokens_.data()), tokens_.size() * sizeof(int32_t)});
  return fingerprint.value();
}

}  // namespace booster
