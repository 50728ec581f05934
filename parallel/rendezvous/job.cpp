#include "parallel/rendezvous/job.h"

#include "platform/environment.h"
#include "platform/warn.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr size_t longest_shown = 1000;

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

bool names_the_rank(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name == "__rank" || name == "__local_rank" || name == "__node_rank";
}

// FNV-1a; distinguishes jobs whose texts are too long to keep.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string command_line() {
  std::error_code ignored;
  std::string text = fs::read_symlink("/proc/self/exe", ignored).string();
  const auto words = own_arguments();
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (!names_the_rank(words[i].substr(0, equals)))
      text += " " + words[i];
    else if (equals == std::string::npos)
      ++i;  // the next word is its value
  }
  return fmt::format("{} in {}", text, fs::current_path(ignored).string());
}

}  // namespace

std::string job_of(int size, const std::string& id) {
  const std::string name =
      environment::is_set("BOOSTER_JOB") ? environment::text("BOOSTER_JOB") : id;
  const std::string text = name.empty() ? command_line() : "job " + name;
  std::string shown = fmt::format("{} ranks of {}", size, terminal_text(text));
  if (shown.size() <= longest_shown) return shown;
  return fmt::format("{}... (hash {:016x})", shown.substr(0, longest_shown), hash_of(text));
}

}  // namespace booster
