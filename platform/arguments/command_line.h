// Command lines of programs, declared with CLI11. Wrong ones are errors in the library's form, of
// kind usage: "booster list: unknown option; got "--jsn"; want one of ... (did you mean --json?)".
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace booster {

// Parses the words after the program's name. Returns false after answering --help or --version; the
// program then ends. Errors begin with the name of the app and of its subcommand. An app with
// `prefix_command` keeps all words from the first non-option on in `remaining()`.
bool parse_command_line(CLI::App& app, const std::vector<std::string>& words);
bool parse_command_line(CLI::App& app, int argc, const char* const* argv);

// Throws for a word that the app does not know, with the nearest name of an option or subcommand.
[[noreturn]] void fail_unknown_word(const CLI::App& app, const std::string& word);

}  // namespace booster
