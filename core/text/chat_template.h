// Chat templates: conversations to the text that a model was trained on, as apply_chat_template of
// Hugging Face's transformers writes it.
//
//   const auto chat = ChatTemplate::from_file("Llama-3.2-1B-Instruct");
//   std::string text = chat.render({{"user", "Hi"}}, {.add_generation_prompt = true});
//
// Templates are written in a subset of Jinja (docs/language-models.md, "Chat templates"). What is
// outside it is an error that names it, with the template's line. Immutable; thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

struct ChatMessage {
  std::string role, content;
};

struct ChatRenderOptions {
  bool add_generation_prompt = false;  // end with what comes before an answer
};

// A conversation's text, and which bytes [begin, end) of it are answers.
struct RenderedChat {
  std::string text;
  std::vector<std::pair<size_t, size_t>> answers;
};

class ChatTemplate {
 public:
  // `path`: a folder or its tokenizer_config.json. A chat_template.jinja in the folder comes first.
  // Throws an error of kind data if there is no template or it is not understood.
  static ChatTemplate from_file(const std::string& path);
  // Returns whether from_file would find a template.
  static bool is_in(const std::string& path);
  // `variables`: what a template may ask for besides messages: bos_token, eos_token. `name` stands
  // for the template in errors.
  static ChatTemplate from_text(std::string_view source,
                                const std::map<std::string, std::string>& variables = {},
                                const std::string& name = "chat_template");

  // Throws an error of kind data if the template refuses the conversation.
  std::string render(std::span<const ChatMessage> messages, ChatRenderOptions options = {}) const;
  std::string render(std::initializer_list<ChatMessage> messages,
                     ChatRenderOptions options = {}) const {
    return render(std::span(messages.begin(), messages.size()), options);
  }
  // The same with the answers among messages `from`, `from` + 1, ...: what the template adds for a
  // message of the role assistant to the text before it, without white space at its end. Blocks
  // {% generation %} say so themselves if the template has some. Throws if a later message changes
  // how an answer is written.
  RenderedChat render_answers(std::span<const ChatMessage> messages, size_t from = 0) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  RenderedChat run(std::span<const ChatMessage> messages, ChatRenderOptions options) const;

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace booster
