// What programs share: the version of these headers, and command lines.
//
// The ABI tag must be the same in a library that extends booster and the program that loads it.
// (fmt and nlohmann_json have theirs in their symbol names.) Command lines are declared with CLI11.
// Wrong ones are errors in the library's form, of kind usage: "booster list: unknown option; got
// "--jsn"; want one of ... (did you mean --json?)".
#pragma once

#include <string>
#include <vector>
#include <version>

#define BOOSTER_HEADERS_VERSION "0.1.0"

// The standard library whose containers and strings the interface passes.
#if defined(_LIBCPP_VERSION)
#define BOOSTER_STANDARD_LIBRARY "libc++"
#elif defined(_GLIBCXX_DEBUG)
#define BOOSTER_STANDARD_LIBRARY "libstdc++ in debug mode"
#elif _GLIBCXX_USE_CXX11_ABI
#define BOOSTER_STANDARD_LIBRARY "libstdc++"
#else
#define BOOSTER_STANDARD_LIBRARY "libstdc++ with the strings of C++98"
#endif

#define BOOSTER_ABI_TAG "booster-abi: " BOOSTER_HEADERS_VERSION " with " BOOSTER_STANDARD_LIBRARY

namespace CLI {
class App;
}

namespace booster {

inline constexpr char version[] = BOOSTER_HEADERS_VERSION;
inline constexpr char abi_tag[] = BOOSTER_ABI_TAG;

// Parses the words after the program's name. Returns false after answering --help or --version; the
// program then ends. Errors begin with the name of the app and of its subcommand. An app with
// `prefix_command` keeps all words from the first non-option on in `remaining()`.
bool parse_command_line(CLI::App& app, const std::vector<std::string>& words);
bool parse_command_line(CLI::App& app, int argc, const char* const* argv);

// Throws for a word that the app does not know, with the nearest name of an option or subcommand.
[[noreturn]] void fail_unknown_word(const CLI::App& app, const std::string& word);

}  // namespace booster
