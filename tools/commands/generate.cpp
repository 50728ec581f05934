#include "booster/config/pretrained.h"
#include "core/nn/generate.h"
#include "core/text/tokenizer.h"
#include "platform/error.h"
#include "platform/json/json_document.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace booster::cli {

namespace {

namespace fs = std::filesystem;

struct GenerateArguments {
  std::string folder;     // of Hugging Face's transformers
  std::string tokenizer;  // file or folder; empty: the model's folder
  std::string prompt, dtype = "fp32";
  std::vector<std::string> stops;  // texts that end it
  bool echo = false;               // print the prompt first
  GenerateOptions options;         // temperature 0: the most likely tokens
};

DType dtype_named(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "fp16") return DType::f16;
  fail("generate: --dtype; got {}{}", name, legal_names(name, {"fp32", "bf16", "fp16"}));
}

JsonValue config_in(const fs::path& file) {
  return read_json(file, {.bytes = size_t{16} << 20, .depth = 64, .nodes = 2'000'000},
                   ErrorKind::data);
}

// Rotary positions have no end, but a model has learned only so many.
void warn_of_long_text(const fs::path& folder, uint64_t tokens) {
  const JsonValue config = config_in(folder / "config.json");
  const JsonValue* positions = config.find("max_position_embeddings");
  if (!positions || positions->kind != JsonKind::integer) return;
  const auto known = positions->scalar.get<uint64_t>();
  if (tokens <= known) return;
  warn(
      fmt::format("generate: the text may reach {} tokens, and the model has learned {} positions "
                  "(max_position_embeddings): later tokens may make no sense",
                  tokens, known));
}

// Returns how many bytes at the end of `text` may begin one of the stops.
size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops)
    for (size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n)
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
  return longest;
}

// Prints a text while the model writes it, and finds its end.
class Printer {
 public:
  Printer(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(tokenizer), stops_(stops) {
    for (const std::string& stop : stops)
      check(!stop.empty(), "generate: --stop is empty; want a text that ends the answer");
  }

  // Returns false if the text contains one of the strings that end it.
  bool add(int32_t token) {
    tokens_.push_back(token);
    read(false);
    size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, text_.find(stop, printed_));
    ended_ = end != std::string::npos;
    print_to(ended_ ? end : text_.size() - begun_stop(text_, stops_));
    return !ended_;
  }
  // Prints what is left and ends the line.
  void finish() {
    if (!ended_) {
      read(true);
      print_to(text_.size());
    }
    fmt::print("\n");
  }

 private:
  // Adds the last tokens' text. What a token adds depends on the one before it (a space between
  // words), so both are decoded. The first bytes of a character decode to U+FFFD until the rest of
  // it comes: unless `at_end`, they wait.
  void read(bool at_end) {
    const auto decoded = [&](size_t end) {
      const auto at = [&](size_t i) { return tokens_.begin() + static_cast<std::ptrdiff_t>(i); };
      return tokenizer_.decode(std::vector<int32_t>(at(context_), at(end)));
    };
    const std::string before = decoded(read_), now = decoded(tokens_.size());
    if (now.size() <= before.size() || (!at_end && now.ends_with("\uFFFD"))) return;
    text_ += now.substr(before.size());
    context_ = read_;
    read_ = tokens_.size();
  }
  void print_to(size_t end) {
    if (end <= printed_) return;
    fmt::print("{}", terminal_lines(text_.substr(printed_, end - printed_)));
    std::fflush(stdout);
    printed_ = end;
  }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  std::vector<int32_t> tokens_;
  size_t context_ = 0, read_ = 0;  // tokens before `read_` are in the text
  std::string text_;
  size_t printed_ = 0;
  bool ended_ = false;
};

GenerateOptions options_of(const GenerateArguments& what) {
  GenerateOptions options = what.options;
  check(options.temperature >= 0, "generate: --temperature; got {}, want 0 or more",
        options.temperature);
  options.sample = options.temperature > 0;
  check(options.sample || (options.top_k == 0 && options.top_p == 1),
        "generate: --top-k and --top-p choose among draws; want a --temperature above 0");
  if (!options.sample) options.temperature = 1;
  options.stop_tokens = stop_tokens_of(what.folder);
  return options;
}

int generate_text(const GenerateArguments& what) {
  const DType dtype = dtype_named(what.dtype);
  if (!fs::is_directory(what.folder))
    fail_data("generate: no such folder; got {}", show_text(what.folder));
  GenerateOptions options = options_of(what);
  const Tokenizer tokenizer =
      Tokenizer::from_file(what.tokenizer.empty() ? what.folder : what.tokenizer);
  const std::vector<int32_t> prompt = tokenizer.encode(what.prompt);
  check(!prompt.empty(), "generate: --prompt: no tokens; want some text");
  Printer printer(tokenizer, what.stops);
  const Model model = from_pretrained(what.folder, dtype);
  warn_of_long_text(what.folder, prompt.size() + static_cast<uint64_t>(
                                                     std::max<int64_t>(options.max_new_tokens, 0)));
  if (what.echo) fmt::print("{}", terminal_lines(what.prompt));
  options.on_token = [&](size_t, int32_t token) { return printer.add(token); };
  generate(model, {prompt}, options);
  printer.finish();
  return 0;
}

}  // namespace

Action generate_command(CLI::App& line) {
  const auto given = std::make_shared<GenerateArguments>();
  given->options.temperature = 0;
  line.add_option("FOLDER", given->folder,
                  "config.json, safetensors and tokenizer.json, as transformers writes them")
      ->required();
  line.add_option("--prompt", given->prompt, "the beginning of the text")->required();
  line.add_option("--tokenizer", given->tokenizer, "file or folder (FOLDER)");
  line.add_option("--max-new-tokens", given->options.max_new_tokens, "(128)");
  line.add_option("--temperature", given->options.temperature,
                  "temperature of the draws; 0 (default): always the most likely token");
  line.add_option("--top-k", given->options.top_k, "draw only from the k most likely tokens");
  line.add_option("--top-p", given->options.top_p,
                  "draw only from the most likely tokens with this total probability");
  line.add_option("--repetition-penalty", given->options.repetition_penalty,
                  "above 1: makes tokens that the text has already less likely");
  line.add_option("--seed", given->options.seed, "of draws (0)");
  line.add_option("--stop", given->stops, "a string that ends the text")->allow_extra_args(false);
  line.add_option("--dtype", given->dtype, "fp32, bf16 or fp16");
  line.add_flag("--echo", given->echo, "print the prompt first");
  return [given](const Words&) { return generate_text(*given); };
}

}  // namespace booster::cli
