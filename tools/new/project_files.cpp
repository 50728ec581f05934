#include "tools/new/project_files.h"

#include "platform/error.h"
#include "platform/json/json_document.h"

#include <algorithm>
#include <string_view>

namespace booster {

namespace {

constexpr std::string_view mark = "@NAME@";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool may_follow(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; }

}  // namespace

void check_project_name(const std::string& name) {
  check(!name.empty() && is_letter(name[0]) && std::ranges::all_of(name, may_follow),
        "new: wrong name; got {}, want a letter, then letters, digits, '_' or '-'",
        show_text(name));
}

std::vector<ProjectFile> project_files(const std::string& name) {
  std::vector<ProjectFile> files = project_templates();
  for (ProjectFile& file : files)
    for (size_t at = 0; (at = file.text.find(mark, at)) != std::string::npos; at += name.size())
      file.text.replace(at, mark.size(), name);
  return files;
}

}  // namespace booster
