// Text to tokens and back, by the files of Hugging Face's tokenizers.
//
//   const Tokenizer tokenizer = Tokenizer::from_file("gpt2");  // or gpt2/tokenizer.json
//   const std::vector<int32_t> tokens = tokenizer.encode("Hello, world");
//   const std::string text = tokenizer.decode(tokens);
//
// Results equal those of the Python package `tokenizers`. Models: byte-pair encoding (GPT-2, Llama,
// Qwen, Mistral), WordPiece (BERT) and WordLevel. A file that asks for something else (Unigram,
// dropout of merges) is refused by name. A Tokenizer is immutable: any number of threads may use
// one, and copies share its tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

struct EncodeTextOptions {
  bool special_tokens = true;  // add those that the file's template asks for, such as [CLS] or <s>
};

struct DecodeTextOptions {
  bool skip_special_tokens = true;
};

// Tokens of one text or of a pair, with BERT's token_type_ids (0: first, 1: second text).
struct Encoded {
  std::vector<int32_t> tokens;
  std::vector<int32_t> segments;
};

class Tokenizer {
 public:
  // `path`: a tokenizer.json, or a folder that holds one, or a folder with GPT-2's vocab.json and
  // merges.txt. Throws an error of kind data, with the place in the file, for a file that cannot be
  // read or describes what is not supported.
  static Tokenizer from_file(const std::string& path);
  // The same from the text of a tokenizer.json; `name` stands for it in errors.
  static Tokenizer from_json(std::string_view json, const std::string& name = "tokenizer.json");

  // Returns the tokens of `text`. Bytes that are not UTF-8 count as U+FFFD.
  std::vector<int32_t> encode(std::string_view text, EncodeTextOptions options = {}) const;
  // The same with segments; `second` is the other text of a pair.
  Encoded encode_pair(std::string_view first, std::string_view second,
                      EncodeTextOptions options = {}) const;
  // Returns the text of `tokens`. Numbers without a token are skipped.
  std::string decode(std::span<const int32_t> tokens, DecodeTextOptions options = {}) const;

  std::optional<int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(int32_t id) const;
  // Returns one more than the largest number of a token: the rows that an embedding needs.
  int64_t vocabulary_size() const;
  // Returns the SHA-256 of the tokeniser's description.
  const std::string& fingerprint() const;

 private:
  struct Stages;
  explicit Tokenizer(std::shared_ptr<const Stages> stages) : stages_(std::move(stages)) {}
  std::vector<int32_t> sequence(std::string_view text) const;

  std::shared_ptr<const Stages> stages_;
};

// --- texts to files of tokens, which TokenFile (core/data/datasets/datasets.h) reads
struct TokenizeOptions {
  std::string text_key = "text";          // of JSON lines (FILE.jsonl): where the text is
  std::optional<int32_t> end_token = {};  // added after each document
  int threads = 0;                        // 0: one per processor
  // Called now and then with the bytes of text done and all bytes.
  std::function<void(uint64_t done, uint64_t all)> progress = {};
};

struct TokenizeResult {
  uint64_t documents = 0, tokens = 0, bytes = 0;
  int bytes_per_token = 0;  // 2 if every token number fits, else 4
  bool resumed = false;     // continued an earlier run that had been stopped
  bool finished = false;    // an earlier run had written all
};

// Writes the tokens of the texts to `output`, one after another, and OUTPUT.json, which describes
// them. Each line of a .jsonl file is a document; any other file is one document, or several where
// it has the end token's text. The tokeniser's template (such as [CLS]) is not applied.
//
// A run that was stopped goes on where it was when it is started again with the same files,
// tokeniser and options; the result is the same. One that had finished writes nothing. Until a run
// has finished the tokens are in OUTPUT.part. Throws
// an error of kind data, with file and line, for a line that is no JSON object with that key.
TokenizeResult tokenize_files(const Tokenizer& tokenizer,
                              const std::vector<std::filesystem::path>& texts,
                              const std::filesystem::path& output,
                              const TokenizeOptions& options = {});

// --- Chat templates: conversations to the text that a model was trained on, as apply_chat_template
// of Hugging Face's transformers writes it.
//
//   const auto chat = ChatTemplate::from_file("Llama-3.2-1B-Instruct");
//   std::string text = chat.render({{"user", "Hi"}}, {.add_generation_prompt = true});
//
// Templates are written in a subset of Jinja (docs/language-models.md, "Chat templates"). What is
// outside it is an error that names it, with the template's line. Immutable; thread-safe.

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
