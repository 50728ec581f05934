#include "booster/config/pretrained.h"
#include "core/nn/generate.h"
#include "core/text/tokenizer.h"
#include "platform/error.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace booster::cli {

namespace {

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

// Prints a text while the model writes it, and finds its end.
class Printer {
 public:
  Printer(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(tokenizer), stops_(stops) {}

  // Returns false if the text contains one of the strings that end it.
  bool add(int32_t token) {
    tokens_.push_back(token);
    std::string text = tokenizer_.decode(tokens_);
    size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, text.find(stop));
    if (end != std::string::npos) text.resize(end);
    // An incomplete character decodes to U+FFFD until its last byte arrives.
    else if (text.ends_with("\uFFFD"))
      return true;
    print_to(text);
    return end == std::string::npos;
  }
  void finish() {
    print_to(tokenizer_.decode(tokens_));
    fmt::print("\n");
  }

 private:
  void print_to(const std::string& text) {
    if (text.size() <= printed_) return;
    fmt::print("{}", terminal_lines(text.substr(printed_)));
    std::fflush(stdout);
    printed_ = text.size();
  }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  std::vector<int32_t> tokens_;
  size_t printed_ = 0;
};

int generate_text(const GenerateArguments& what) {
  const DType dtype = dtype_named(what.dtype);
  const Tokenizer tokenizer =
      Tokenizer::from_file(what.tokenizer.empty() ? what.folder : what.tokenizer);
  const std::vector<int32_t> prompt = tokenizer.encode(what.prompt);
  check(!prompt.empty(), "generate: --prompt: no tokens; want some text");
  const Model model = from_pretrained(what.folder, dtype);
  if (what.echo) fmt::print("{}", terminal_lines(what.prompt));
  Printer printer(tokenizer, what.stops);
  GenerateOptions options = what.options;
  options.sample = options.temperature > 0;
  if (!options.sample) options.temperature = 1;
  options.stop_tokens = stop_tokens_of(what.folder);
  bool ended = false;
  options.on_token = [&](size_t, int32_t token) {
    ended = !printer.add(token);
    return !ended;
  };
  generate(model, {prompt}, options);
  ended ? fmt::print("\n") : printer.finish();
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
