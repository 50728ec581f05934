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

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

bool is_image_by_name(const fs::path& path) {
  static const std::vector<std::string> extensions = {".jpg", ".jpeg", ".png", ".bmp",  ".gif",
                                                      ".ppm", ".pgm",  ".tif", ".tiff", ".webp"};
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return !is_hidden(path) && std::ranges::find(extensions, extension) != extensions.end();
}

// False for a link that leads nowhere, or to itself.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}
// True for such a link: what has an image's name and cannot be read is a bad image.
bool may_be_file(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_type type = entry.status(error).type();
  return type == fs::file_type::regular || type == fs::file_type::not_found ||
         type == fs::file_type::none || type == fs::file_type::unknown;
}

class FolderFiles : public ImageFiles {
 public:
  FolderFiles(const char* what, std::string root) : what_(what), root_(std::move(root)) {}

  std::vector<std::string> folders() const override {
    std::vector<std::string> names;
    reading([&] {
      for (const auto& entry : fs::directory_iterator(root_))
        if (is_folder(entry) && !is_hidden(entry.path()))
          names.push_back(entry.path().filename().string());
    });
    std::ranges::sort(names);
    return names;
  }

  std::vector<std::string> images(const std::string& folder) const override {
    std::vector<std::string> paths;
    reading([&] {
      for (auto entry = fs::recursive_directory_iterator(fs::path(root_) / folder);
           entry != fs::recursive_directory_iterator(); ++entry) {
        if (is_folder(*entry) && is_hidden(entry->path()))
          entry.disable_recursion_pending();
        else if (may_be_file(*entry) && is_image_by_name(entry->path()))
          paths.push_back(entry->path().string());
      }
    });
    std::ranges::sort(paths);
    return paths;
  }

  std::vector<uint8_t> read(const std::string& path) const override {
    return read_image_file(path);
  }

 private:
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
    for (const ArchiveMember& member : archive_->members()) {
      if (!member.name.starts_with(below)) continue;
      const fs::path inner = member.name.substr(below.size());
      if (std::ranges::any_of(inner.parent_path(), is_hidden)) continue;
      if (inner.has_parent_path()) folders_.insert(inner.begin()->string());
      if (is_image_by_name(inner)) members_[archive + "/" + member.name] = &member;
    }
  }

  std::vector<std::string> folders() const override { return {folders_.begin(), folders_.end()}; }

  std::vector<std::string> images(const std::string& folder) const override {
    const std::string begin = begin_ + folder + "/";
    std::vector<std::string> paths;
    for (auto at = members_.lower_bound(begin);
         at != members_.end() && at->first.starts_with(begin); ++at)
      paths.push_back(at->first);
    return paths;
  }

  std::vector<uint8_t> read(const std::string& path) const override {
    return archive_->read(*members_.at(path));
  }

 private:
  std::shared_ptr<const Archive> archive_;
  std::string begin_;
  std::set<std::string> folders_;
  std::map<std::string, const ArchiveMember*> members_;  // by whole path
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
