#include "core/data/datasets/image_files.h"

#include "core/data/archives/archive.h"
#include "core/data/images/image_file.h"
#include "platform/error.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

namespace booster {
namespace fs = std::filesystem;

namespace {

constexpr const char *hidden = "hidden", *outside = "outside of the folders of classes",
                     *circular = "links to a folder that they lie in";

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(extensions, extension) != extensions.end();
}

// Returns why a file of this name is not an image; "" if it is one.
std::string reason_against(const fs::path& path) {
  static const std::vector<std::string> images = {".jpg", ".jpeg", ".png", ".bmp",  ".gif",
                                                  ".ppm", ".pgm",  ".tif", ".tiff", ".webp"},
                                        archives = {".zip", ".tar", ".gz", ".tgz", ".bz2",
                                                    ".xz",  ".zst", ".7z", ".rar"};
  if (is_hidden(path)) return hidden;
  if (has_extension(path, images)) return "";
  return has_extension(path, archives) ? "archives within" : "without an image's extension";
}

// Returns false for a link that leads nowhere, or to itself.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}
// Returns true for such a link: a file with an image's name that cannot be read is a bad image.
bool may_be_file(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_type type = entry.status(error).type();
  return type == fs::file_type::regular || type == fs::file_type::not_found ||
         type == fs::file_type::none || type == fs::file_type::unknown;
}

class FolderFiles : public ImageFiles {
 public:
  FolderFiles(const char* what, std::string root) : what_(what), root_(std::move(root)) {}

  std::vector<std::string> folders(LeftOut& left_out) const override {
    std::vector<std::string> names;
    reading([&] {
      for (const auto& entry : fs::directory_iterator(root_)) {
        const std::string name = entry.path().filename().string();
        if (is_hidden(name))
          left_out.add(hidden, name);
        else if (!is_folder(entry))
          left_out.add(outside, name);
        else if (fs::equivalent(entry.path(), root_))
          left_out.add(circular, name);
        else
          names.push_back(name);
      }
    });
    std::ranges::sort(names);
    return names;
  }

  std::vector<std::string> images(const std::string& folder, LeftOut& left_out) const override {
    Walk walk{.paths = {}, .left_out = left_out, .within = {root_}};
    reading([&] { add_images(fs::path(root_) / folder, walk); });
    std::ranges::sort(walk.paths);
    return std::move(walk.paths);
  }

  std::vector<uint8_t> read(const std::string& path) const override {
    return read_image_file(path);
  }

 private:
  struct Walk {
    std::vector<std::string> paths;
    LeftOut& left_out;
    std::vector<fs::path> within;  // folders that contain the one being read
  };

  void add_images(const fs::path& folder, Walk& walk) const {
    walk.within.push_back(folder);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path& path = entry.path();
      const std::string reason = reason_against(entry, walk);
      if (!reason.empty())
        walk.left_out.add(reason, path.lexically_relative(root_).string());
      else if (is_folder(entry))
        add_images(path, walk);
      else
        walk.paths.push_back(path.string());
    }
    walk.within.pop_back();
  }

  static std::string reason_against(const fs::directory_entry& entry, const Walk& walk) {
    const fs::path& path = entry.path();
    if (!is_folder(entry))
      return may_be_file(entry) ? booster::reason_against(path) : "devices, pipes or sockets";
    if (is_hidden(path)) return hidden;
    const auto is_same = [&](const fs::path& other) { return fs::equivalent(path, other); };
    return std::ranges::any_of(walk.within, is_same) ? circular : "";
  }

  template <class Action>
  void reading(const Action& action) const {
    try {
      action();
    } catch (const fs::filesystem_error& error) {
      fail_data("{}: cannot read '{}': {}", what_, error.path1().string(), error.code().message());
    }
  }

  const char* what_;
  std::string root_;
};

// Members below a folder of the archive, which is "" or ends with a slash.
class ArchivedFiles : public ImageFiles {
 public:
  ArchivedFiles(const std::string& archive, const std::string& below)
      : archive_(open_archive(archive)), begin_(archive + "/" + below) {
    const auto inner_of = [&](const std::string& name) {
      return fs::path(name.starts_with(below) ? name.substr(below.size()) : "");
    };
    for (const std::string& folder : archive_->folders())
      if (const fs::path inner = inner_of(folder);
          !inner.empty() && std::ranges::none_of(inner, is_hidden))
        folders_.insert(inner.begin()->string());
    for (const ArchiveMember& member : archive_->members()) {
      const fs::path inner = inner_of(member.name);
      if (!inner.empty()) add(inner, archive + "/" + member.name, member);
    }
    for (const UnreadMember& member : archive_->unread())
      if (const fs::path inner = inner_of(member.name); !inner.empty())
        unread_.emplace_back(inner, member.reason);
  }

  std::vector<std::string> folders(LeftOut& left_out) const override {
    for (const auto& [inner, reason] : unread_)
      if (!inner.has_parent_path()) left_out.add(reason, inner.string());
    return {folders_.begin(), folders_.end()};
  }

  std::vector<std::string> images(const std::string& folder, LeftOut& left_out) const override {
    const std::string begin = begin_ + folder + "/";
    std::vector<std::string> paths;
    for (auto at = members_.lower_bound(begin);
         at != members_.end() && at->first.starts_with(begin); ++at)
      paths.push_back(at->first);
    for (const auto& [inner, reason] : unread_)
      if (inner.has_parent_path() && *inner.begin() == folder) left_out.add(reason, inner.string());
    return paths;
  }

  std::vector<uint8_t> read(const std::string& path) const override {
    return archive_->read(*members_.at(path));
  }

 private:
  void add(const fs::path& inner, const std::string& path, const ArchiveMember& member) {
    const bool is_hidden_folder = std::ranges::any_of(inner.parent_path(), is_hidden);
    if (inner.has_parent_path() && !is_hidden_folder) folders_.insert(inner.begin()->string());
    std::string reason = is_hidden_folder ? hidden : reason_against(inner);
    if (reason != hidden && !inner.has_parent_path()) reason = outside;
    if (reason.empty())
      members_[path] = &member;
    else
      unread_.emplace_back(is_hidden(*inner.begin()) ? inner.filename() : inner, reason);
  }

  std::shared_ptr<const Archive> archive_;
  std::string begin_;
  std::set<std::string> folders_;
  std::map<std::string, const ArchiveMember*> members_;   // by whole path
  std::vector<std::pair<fs::path, std::string>> unread_;  // path from the root, and the reason
};

}  // namespace

std::shared_ptr<const ImageFiles> open_image_files(const char* what, const std::string& root) {
  std::error_code error;
  if (fs::is_directory(root, error)) return std::make_shared<FolderFiles>(what, root);
  std::string below;
  for (fs::path path = root; path.has_relative_path(); path = path.parent_path()) {
    if (fs::is_regular_file(path, error))
      return std::make_shared<ArchivedFiles>(path.string(), below);
    if (path.has_filename()) below = path.filename().string() + "/" + below;
  }
  fail_data("{}: no such folder; got '{}'", what, root);
}

}  // namespace booster
