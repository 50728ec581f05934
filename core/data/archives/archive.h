// Tar and zip files, read in place: the index once, then members one by one. Nothing is unpacked to
// a disk, and nothing in an archive is trusted: sizes are checked before memory is taken for them.
#pragma once

#include "core/data/archives/archive_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct ArchiveMember {
  std::string name;     // "set/class/image.jpg": relative, without "." and ".."
  uint64_t offset = 0;  // tar: of its bytes; zip: of the header before them
  uint64_t stored = 0;  // bytes in the archive
  uint64_t bytes = 0;   // of the file
  // Of a zip.
  uint16_t method = 0;  // how it is compressed: 0 not, 8 deflate
  uint16_t flags = 0;
  uint32_t checksum = 0;
};

// A link in an archive, hard or symbolic.
struct ArchiveLink {
  std::string name;
  std::string target;  // from the archive's root; "" if it leads outside
};

// A member that is neither a file nor a folder nor a link to a file of the archive.
struct UnreadMember {
  std::string name;
  std::string reason;  // "devices or pipes", as LeftOut has it
};

// What stands in an archive, in its order.
struct ArchiveIndex {
  std::vector<ArchiveMember> members = {};
  std::vector<std::string> folders = {};
  std::vector<ArchiveLink> links = {};
  std::vector<UnreadMember> unread = {};
};

class Archive {
 public:
  // Error of kind data, which begins with "archive 'PATH'", for what is no archive of a known kind,
  // or compressed as a whole (tar.gz), cut short, or damaged, and for members with names that lead
  // outside (absolute, or with "..").
  explicit Archive(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // Files, by name; of several with one name the last. A link to a file is that file.
  const std::vector<ArchiveMember>& members() const { return index_.members; }
  // Folders that the archive names; others follow from the names of files.
  const std::vector<std::string>& folders() const { return index_.folders; }
  const std::vector<UnreadMember>& unread() const { return index_.unread; }
  // The member's bytes. A bad image (image.h) if it exceeds image_limits::file_bytes, is compressed
  // otherwise or encrypted, does not have the size or the checksum that it should. Thread-safe.
  std::vector<uint8_t> read(const ArchiveMember& member) const;

 private:
  void sort_members();
  void follow_links();

  ArchiveFile file_;
  bool is_zip_ = false;
  ArchiveIndex index_;
};

// The archive at that path. The one that was opened last stays open, until the file changes or
// another is opened, so that a data set that looks at it in several steps has its index read once.
std::shared_ptr<const Archive> open_archive(const std::string& path);

// The kinds; offsets and sizes are within the file. Errors as above.
ArchiveIndex read_tar_index(const ArchiveFile& file);
ArchiveIndex read_zip_index(const ArchiveFile& file);
std::vector<uint8_t> read_zip_member(const ArchiveFile& file, const ArchiveMember& member);
// True if these 512 bytes may begin a tar: their checksum is right.
bool is_tar_header(const uint8_t* header);

// The name as members have it. Error of kind data for one that leads outside.
std::string member_name(const ArchiveFile& file, const std::string& raw);
// Where a symbolic link of that name leads, from the archive's root; "" if outside of it.
std::string link_target(const std::string& name, const std::string& target);

}  // namespace booster
