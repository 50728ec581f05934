#include "core/text/tokenizer.h"
#include "platform/error.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include <unistd.h>

namespace booster::cli {

namespace {

struct TokenizeArguments {
  std::string tokenizer, output;
  std::vector<std::string> texts;
  std::string text_key = "text";
  std::string end_token;  // its text; empty: none
  int threads = 0;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Shows one line that it overwrites, on a terminal only.
void show_progress(uint64_t done, uint64_t all, Clock::time_point start) {
  if (::isatty(STDOUT_FILENO) == 0) return;
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  const auto filled = static_cast<size_t>(share * 30);
  fmt::print("\r[{:<30}] {:5.1f} %  {:.1f} MB, {:.1f} MB/s {}", std::string(filled, '#'),
             share * 100, static_cast<double>(done) / 1e6,
             static_cast<double>(done) / 1e6 / std::max(seconds_since(start), 1e-9),
             done == all ? "\n" : "");
  std::fflush(stdout);
}

std::optional<int32_t> end_token_of(const Tokenizer& tokenizer, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto id = tokenizer.id_of(text);
  check(id.has_value(), "tokenize: --end-token: no such token; got {}", terminal_text(text));
  return id;
}

int tokenize(const TokenizeArguments& what) {
  const Tokenizer tokenizer = Tokenizer::from_file(what.tokenizer);
  const auto start = Clock::now();
  const TokenizeResult result = tokenize_files(
      tokenizer, {what.texts.begin(), what.texts.end()}, what.output,
      {.text_key = what.text_key,
       .end_token = end_token_of(tokenizer, what.end_token),
       .threads = what.threads,
       .progress = [&](uint64_t done, uint64_t all) { show_progress(done, all, start); }});
  fmt::print("{}: {} tokens of {} bytes each from {} documents, {:.1f} MB of text{} in {:.1f} s\n",
             terminal_text(what.output), result.tokens, result.bytes_per_token, result.documents,
             static_cast<double>(result.bytes) / 1e6,
             result.finished  ? ", written by an earlier run,"
             : result.resumed ? ", continued from an earlier run,"
                              : "",
             seconds_since(start));
  return 0;
}

}  // namespace

Action tokenize_command(CLI::App& line) {
  const auto given = std::make_shared<TokenizeArguments>();
  line.add_option("TOKENIZER", given->tokenizer, "tokenizer.json, or a folder that holds one")
      ->required();
  line.add_option("OUT", given->output, "the output file of tokens")->required();
  line.add_option("TEXT", given->texts, "texts; each line of a .jsonl file is a document")
      ->required();
  line.add_option("--text-key", given->text_key, "field of a .jsonl line with the text (text)");
  line.add_option(
      "--end-token", given->end_token,
      "token to add after each document: <|endoftext|>; in texts it also separates documents");
  line.add_option("--threads", given->threads, "(one per processor)");
  return [given](const Words&) { return tokenize(*given); };
}

}  // namespace booster::cli
