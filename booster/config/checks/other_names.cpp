#include "booster/config/checks/other_names.h"

#include "platform/error.h"

#include <algorithm>
#include <cctype>

namespace booster {

namespace {

struct OtherName {
  std::string_view theirs, ours;
};

constexpr OtherName other_names[] = {
#define OTHER(theirs, ours) {theirs, ours},
#include "booster/config/checks/other_names.def"
#undef OTHER
};

std::string folded(std::string_view word) {
  std::string letters;
  for (const char letter : word)
    if (letter != '_' && letter != '-')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return letters;
}

}  // namespace

std::vector<std::string> meant_by(std::string_view word) {
  std::vector<std::string> names;
  const std::string letters = folded(word);
  for (const OtherName& name : other_names)
    if (name.theirs == letters) names.emplace_back(name.ours);
  return names;
}

std::string our_name(std::string_view word, const std::vector<std::string>& legal) {
  for (const std::string& name : legal)
    if (folded(name) == folded(word)) return name;
  for (const std::string& name : meant_by(word))
    if (std::find(legal.begin(), legal.end(), name) != legal.end()) return name;
  return nearest_name(word, legal);
}

std::string legal_words(std::string_view word, const std::vector<std::string>& legal) {
  const std::string name = our_name(word, legal);
  return legal_names(name.empty() ? word : name, legal);
}

}  // namespace booster
