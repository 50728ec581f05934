// Tar and zip files, read in place: first the index, then single members. Nothing is unpacked to
// disk. No archive is trusted: sizes are checked before memory is allocated for them.
#pragma once

#include "core/data/archives/archive_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct ArchiveMember {
  std::string name;     // "set/class/image.jpg": relative, without "." and ".."
  uint64_t offset = 0;  // tar: of the file's bytes; zip: of the header before them
  uint64_t stored = 0;  // bytes in the archive
  uint64_t bytes = 0;   // of the file
  // Zip only.
  uint16_t method = 0;  // compression: 0 none, 8 deflate
  uint16_t flags = 0;
  uint32_t checksum = 0;
};

// A link in an archive, hard or symbolic.
struct ArchiveLink {
  std::string name;
  std::string target;  // from the archive's root; "" if it leads outside
};

// A member that is neither a file, a folder, nor a link to a file in the archive.
struct UnreadMember {
  std::string name;
  std::string reason;  // "devices or pipes", as in LeftOut
};

// An archive's contents, in archive order.
struct ArchiveIndex {
  std::vector<ArchiveMember> members = {};
  std::vector<std::string> folders = {};
  std::vector<ArchiveLink> links = {};
  std::vector<UnreadMember> unread = {};
};

class Archive {
 public:
  // Reads the index. Throws an error of kind data that begins with "archive 'PATH'" for a file of
  // unknown kind, a compressed one (tar.gz), and a truncated or damaged one. Throws the same for
  // member names that lead outside (absolute, or with "..").
  explicit Archive(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // Returns the files, sorted by name. Of several with one name it returns the last. A link to a
  // file counts as that file.
  const std::vector<ArchiveMember>& members() const { return index_.members; }
  // Returns the folders that have entries. File names imply the others.
  const std::vector<std::string>& folders() const { return index_.folders; }
  const std::vector<UnreadMember>& unread() const { return index_.unread; }
  // Returns the member's bytes. Throws a bad image (image.h) if it exceeds
  // image_limits::file_bytes, is encrypted, uses another compression, or has a wrong size or
  // checksum. Thread-safe.
  std::vector<uint8_t> read(const ArchiveMember& member) const;

 private:
  void sort_members();
  void follow_links();

  ArchiveFile file_;
  bool is_zip_ = false;
  ArchiveIndex index_;
};

// Opens the archive at `path`. The last one opened stays open until its file changes or another is
// opened. A data set that uses it in several steps thus reads the index once.
std::shared_ptr<const Archive> open_archive(const std::string& path);

// Read the index of either kind; offsets and sizes lie within the file. Throw the errors above.
ArchiveIndex read_tar_index(const ArchiveFile& file);
ArchiveIndex read_zip_index(const ArchiveFile& file);
std::vector<uint8_t> read_zip_member(const ArchiveFile& file, const ArchiveMember& member);
// Returns true if these 512 bytes may begin a tar file: their checksum is right.
bool is_tar_header(const uint8_t* header);

// Returns the name in the form of ArchiveMember::name. Throws an error of kind data if it leads
// outside.
std::string member_name(const ArchiveFile& file, const std::string& raw);
// Returns the target of symbolic link `name`, from the archive's root; "" if it is outside.
std::string link_target(const std::string& name, const std::string& target);

}  // namespace booster
