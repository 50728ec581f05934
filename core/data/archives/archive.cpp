#include "core/data/archives/archive.h"

#include "core/data/images/image.h"
#include "core/data/images/image_limits.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>

namespace booster {

namespace {

constexpr size_t longest_name = 4096;

struct Kind {
  std::string_view magic, remedy;
};
// A file compressed as a whole cannot be read at a position.
constexpr Kind others[] = {
    {"\x1f\x8b", "compressed by gzip; want it unpacked (tar -xzf), or a plain tar (gunzip)"},
    {"BZh", "compressed by bzip2; want it unpacked (tar -xjf), or a plain tar (bunzip2)"},
    {"\xfd\x37zXZ", "compressed by xz; want it unpacked (tar -xJf), or a plain tar (unxz)"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd; want it unpacked, or a plain tar (unzstd)"},
    {"7z\xbc\xaf", "a 7z file; want it unpacked, or a tar or zip file"},
    {"Rar!", "a rar file; want it unpacked, or a tar or zip file"},
};

}  // namespace

std::string member_name(const ArchiveFile& file, const std::string& raw) {
  const auto refuse = [&](const char* why) {
    file.fail(fmt::format("a member's name {}; got '{}'", why, terminal_text(raw.substr(0, 200))));
  };
  if (raw.size() > longest_name) refuse("is too long");
  if (raw.find('\0') != std::string::npos) refuse("holds a zero byte");
  if (raw.starts_with('/')) refuse("leads outside of the archive");
  std::string name;
  for (size_t begin = 0; begin <= raw.size();) {
    const size_t end = std::min(raw.find('/', begin), raw.size());
    const std::string part = raw.substr(begin, end - begin);
    if (part == "..") refuse("leads outside of the archive");
    if (!part.empty() && part != ".") name += (name.empty() ? "" : "/") + part;
    begin = end + 1;
  }
  return name;
}

std::string link_target(const std::string& name, const std::string& target) {
  if (target.starts_with('/')) return "";
  std::vector<std::string> parts;
  const std::string whole = name.substr(0, name.rfind('/') + 1) + target;
  for (size_t begin = 0; begin <= whole.size();) {
    const size_t end = std::min(whole.find('/', begin), whole.size());
    const std::string part = whole.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
      continue;
    }
    if (parts.empty()) return "";
    parts.pop_back();
  }
  return fmt::format("{}", fmt::join(parts, "/"));
}

Archive::Archive(const std::string& path) : file_(path) {
  std::array<uint8_t, 512> begin{};
  const size_t known = std::min<uint64_t>(begin.size(), file_.size());
  file_.read(0, begin.data(), known);
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()), known);
  for (const Kind& kind : others)
    if (bytes.starts_with(kind.magic)) file_.fail(kind.remedy);
  is_zip_ = bytes.starts_with("PK\3\4") || bytes.starts_with("PK\5\6");
  if (!is_zip_ && (known < begin.size() || !is_tar_header(begin.data())))
    file_.fail("neither a zip nor a tar file");
  index_ = is_zip_ ? read_zip_index(file_) : read_tar_index(file_);
  sort_members();
  follow_links();
}

void Archive::sort_members() {
  std::vector<ArchiveMember>& members = index_.members;
  std::ranges::stable_sort(members, {}, &ArchiveMember::name);
  // Unpacking would replace earlier files of a name by the last one.
  const auto last = std::unique(members.rbegin(), members.rend(),
                                [](const auto& a, const auto& b) { return a.name == b.name; });
  members.erase(members.begin(), last.base());
}

// Turns each link to a file into a member with that file's bytes.
void Archive::follow_links() {
  constexpr int most_links = 40;  // in a chain, as Linux allows for files
  std::map<std::string, std::string> targets;
  for (const ArchiveLink& link : index_.links) targets[link.name] = link.target;
  std::vector<ArchiveMember> found;
  for (const auto& [name, target] : targets) {
    std::string at = target;
    for (int i = 0; i < most_links && targets.contains(at); ++i) at = targets.at(at);
    const auto member = std::ranges::lower_bound(index_.members, at, {}, &ArchiveMember::name);
    const bool begins =
        member != index_.members.end() && !at.empty() && member->name.starts_with(at);
    if (begins && member->name == at) {
      found.push_back(*member);
      found.back().name = name;
    } else {
      const bool is_folder = begins && member->name.substr(at.size()).starts_with('/');
      index_.unread.push_back(
          {name, is_folder ? "links to folders of an archive" : "links that lead to no file"});
    }
  }
  index_.members.insert(index_.members.end(), found.begin(), found.end());
  sort_members();
}

std::shared_ptr<const Archive> open_archive(const std::string& path) {
  static std::mutex mutex;
  // Never destroyed: a loader's threads may still read when the program ends.
  static auto& last = *new std::shared_ptr<const Archive>;
  static std::filesystem::file_time_type changed;
  const std::lock_guard lock(mutex);
  std::error_code error;
  const auto now = std::filesystem::last_write_time(path, error);
  if (!last || error || last->path() != path || changed != now) {
    last = std::make_shared<Archive>(path);
    changed = now;
  }
  return last;
}

std::vector<uint8_t> Archive::read(const ArchiveMember& member) const {
  if (member.bytes > image_limits::file_bytes)
    bad_image(path() + "/" + member.name,
              fmt::format("file too large; got {} MB, want at most {} MB", member.bytes >> 20,
                          image_limits::file_bytes >> 20));
  if (is_zip_) return read_zip_member(file_, member);
  std::vector<uint8_t> bytes(member.bytes);
  file_.read(member.offset, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace booster
