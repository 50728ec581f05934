#include "tools/commands/queries.h"

#include "platform/error.h"
#include "platform/files/read_line.h"
#include "platform/warn.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace booster::cli {

namespace {

// Suffices for a query with the largest number of steps.
constexpr size_t longest_line = size_t{4} << 20;

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

// Replaces bytes that could control a terminal by question marks.
std::string without_controls(std::string text) {
  for (char& letter : text)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7F) letter = '?';
  return text;
}

void report(const Error& error, int line, bool json) {
  if (!json) {
    warn(fmt::format("error: line {}: {}", line, without_controls(error.what())));
    return;
  }
  const nlohmann::ordered_json object = {{"line", line}, {"error", error.what()}};
  fmt::print("{}\n", object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Words words_of(const std::string& line) {
  Words words;
  char quote = 0;  // the open quote
  bool inside = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (!quote && is_blank(letter)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (letter == quote)
      quote = 0;
    else if (!quote && (letter == '"' || letter == '\''))
      quote = letter;
    else if (letter == '\\' && quote != '\'' && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += letter;
  }
  check(!quote, "unclosed quote; want another {}", quote);
  return words;
}

int answer_lines(const Words& fixed, bool json, const Answer& answer) {
  int code = 0, line = 0;
  for (std::string text; read_line(std::cin, text, longest_line);) {
    ++line;
    try {
      if (text.size() > longest_line) {
        skip_line(std::cin);
        fail("line too long; want at most {} bytes", longest_line);
      }
      Words words = words_of(text);
      if (words.empty() || words[0][0] == '#') continue;
      words.insert(words.begin(), fixed.begin(), fixed.end());
      code = std::max(code, answer(words, line));
    } catch (const Error& error) {
      report(error, line, json);
      code = std::max(code, error.exit_code());
    }
    std::fflush(stdout);  // a caller that sends one line at a time waits for the answer
  }
  return code;
}

}  // namespace booster::cli
