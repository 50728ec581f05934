#include "booster/profile/machine.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

namespace booster {

namespace {

nlohmann::json known(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string folder_revision() {
  // Without the optional locks git only reads and does not write its index.
  constexpr const char* command =
      "GIT_OPTIONAL_LOCKS=0 git describe --always --dirty --abbrev=40 '--exclude=*' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), ::pclose);
  if (!pipe) return "";
  std::array<char, 256> line{};
  if (!std::fgets(line.data(), line.size(), pipe.get())) return "";
  std::string text = line.data();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

nlohmann::json revisions() {
  return {{"folder", known(folder_revision())}, {"library", known(build_revision())}};
}

}  // namespace booster
