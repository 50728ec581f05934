#include "core/data/datasets/image_listing.h"

#include "platform/error.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace booster {

namespace {

void add_class(const char* what, const std::string& root, const ImageFiles& files,
               const std::string& name, int64_t label, ImageListing& listing, LeftOut& left_out) {
  const auto found = files.images(name, left_out);
  if (found.empty())
    fail_data("{}: class '{}' in '{}' is empty; want files named *.jpg, *.jpeg or *.png", what,
              name, root);
  listing.paths.insert(listing.paths.end(), found.begin(), found.end());
  listing.labels.insert(listing.labels.end(), found.size(), label);
}

// Returns two classes that would share a folder on a case-insensitive disk; "" if there are none.
std::string alike_but_for_case(const std::vector<std::string>& classes) {
  std::map<std::string, std::string> by_lower;
  for (const std::string& name : classes) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto [other, is_new] = by_lower.emplace(lower, name);
    if (!is_new)
      return fmt::format("classes {} and {} only differ in case", terminal_text(other->second),
                         terminal_text(name));
  }
  return "";
}

int64_t label_of(const char* what, const std::string& root, const std::string& name,
                 const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  if (found != classes.end()) return found - classes.begin();
  const std::string near = nearest_name(name, classes);
  fail_data("{}: folder '{}' in '{}' is none of the {} classes{}", what, name, root, classes.size(),
            near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace

ImageListing list_images(const char* what, const std::string& root, const ImageFiles& files,
                         const std::vector<std::string>& excluded,
                         std::vector<std::string> classes) {
  LeftOut left_out;
  std::vector<std::string> folders = files.folders(left_out);
  std::erase_if(folders, [&](const std::string& name) {
    return std::ranges::find(excluded, name) != excluded.end();
  });
  const size_t least = classes.empty() ? 2 : 1;
  if (folders.size() < least)
    fail_data(
        "{}: too few classes in '{}'; got {}, want a folder of images for each of at least {}",
        what, root, folders.empty() ? "none" : "only '" + folders[0] + "'", least);
  ImageListing listing{classes.empty() ? folders : std::move(classes), {}, {}};
  for (const std::string& name : folders)
    add_class(what, root, files, name, label_of(what, root, name, listing.classes), listing,
              left_out);
  listing.left_out = left_out.text();
  const std::string alike = alike_but_for_case(listing.classes);
  if (!alike.empty()) listing.left_out += (left_out.empty() ? "" : "; ") + alike;
  return listing;
}

}  // namespace booster
