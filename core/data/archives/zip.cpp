// Zip files (PKWARE's APPNOTE.TXT 6.3.10): stored and deflated members, and ZIP64 for many or large
// members.
#include "core/data/archives/archive.h"
#include "core/data/images/image_limits.h"

#include "core/data/images/image.h"
#include "platform/error.h"

#include <algorithm>
#include <array>
#include <optional>

#include <zlib.h>

namespace booster {

namespace {

constexpr uint32_t end_mark = 0x06054B50, end64_mark = 0x06064B50, locator_mark = 0x07064B50,
                   entry_mark = 0x02014B50, local_mark = 0x04034B50;
constexpr size_t end_bytes = 22, locator_bytes = 20, end64_bytes = 56, entry_bytes = 46,
                 local_bytes = 30, longest_comment = 0xFFFF;
constexpr uint16_t method_stored = 0, method_deflate = 8, flag_encrypted = 1, extra_zip64 = 1;
constexpr uint64_t largest_index = uint64_t{4} << 30;

uint16_t u16(const uint8_t* at) { return little_endian<uint16_t>(at); }
uint32_t u32(const uint8_t* at) { return little_endian<uint32_t>(at); }
uint64_t u64(const uint8_t* at) { return little_endian<uint64_t>(at); }

// Location of the entries of all members.
struct Directory {
  uint64_t offset = 0, bytes = 0, entries = 0;
};

// Returns the ZIP64 record that a locator before `end` points to.
std::optional<Directory> find_directory64(const ArchiveFile& file, uint64_t end) {
  if (end < locator_bytes) return {};
  std::array<uint8_t, locator_bytes> locator;
  file.read(end - locator_bytes, locator.data(), locator.size());
  if (u32(locator.data()) != locator_mark) return {};
  std::array<uint8_t, end64_bytes> record;
  file.read(u64(&locator[8]), record.data(), record.size());
  if (u32(record.data()) != end64_mark) file.fail("damaged: a ZIP64 record is missing");
  return Directory{u64(&record[48]), u64(&record[40]), u64(&record[32])};
}

Directory find_directory(const ArchiveFile& file) {
  const uint64_t tail = std::min<uint64_t>(file.size(), end_bytes + longest_comment);
  std::vector<uint8_t> bytes(tail);
  file.read(file.size() - tail, bytes.data(), bytes.size());
  for (size_t at = tail + 1 - std::min<uint64_t>(tail, end_bytes); at-- > 0 && tail >= end_bytes;) {
    const uint8_t* record = &bytes[at];
    // The comment must reach the end of the file, so that no part of it is mistaken for the record.
    if (u32(record) != end_mark || at + end_bytes + u16(record + 20) != tail) continue;
    if (u16(record + 4) != 0 || u16(record + 6) != 0)
      file.fail("one of several parts; want a single zip file");
    if (const auto large = find_directory64(file, file.size() - tail + at)) return *large;
    return {u32(record + 16), u32(record + 12), u16(record + 10)};
  }
  file.fail("truncated: the directory at the end of the zip file is missing");
}

// Sizes and the offset of an entry that exceed 32 bits are in its extra field, in this order.
void read_zip64(const ArchiveFile& file, const uint8_t* extra, size_t length,
                ArchiveMember& member) {
  constexpr uint32_t elsewhere = 0xFFFFFFFF;
  for (size_t at = 0; at + 4 <= length;) {
    const size_t bytes = u16(extra + at + 2);
    if (at + 4 + bytes > length) break;
    if (u16(extra + at) == extra_zip64) {
      const uint8_t *from = extra + at + 4, *end = from + bytes;
      for (uint64_t* value : {&member.bytes, &member.stored, &member.offset}) {
        if (*value != elsewhere) continue;
        if (end - from < 8) file.fail("damaged: an entry lacks its ZIP64 sizes");
        *value = u64(from);
        from += 8;
      }
    }
    at += 4 + bytes;
  }
}

// Allocates exactly the size that the entry claims, never more.
std::vector<uint8_t> inflated(const std::vector<uint8_t>& stored, uint64_t bytes,
                              const std::string& name) {
  std::vector<uint8_t> result(bytes);
  z_stream stream{};
  // A negative number of bits makes zlib read bare deflate data.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) bad_image(name, "not enough memory to inflate it");
  stream.next_in = const_cast<uint8_t*>(stored.data());
  stream.avail_in = static_cast<uInt>(stored.size());
  uint8_t beyond = 0;  // space for one byte more, to detect a longer result
  stream.next_out = bytes > 0 ? result.data() : &beyond;
  stream.avail_out = static_cast<uInt>(bytes > 0 ? bytes : 1);
  int state = inflate(&stream, Z_FINISH);
  if (state == Z_BUF_ERROR && stream.avail_out == 0 && bytes > 0) {
    stream.next_out = &beyond;
    stream.avail_out = 1;
    state = inflate(&stream, Z_FINISH);
  }
  const uint64_t made = stream.total_out;
  inflateEnd(&stream);
  if (made > bytes) bad_image(name, "it inflates to more bytes than the archive states");
  if (state != Z_STREAM_END || made != bytes) bad_image(name, "its compressed bytes are damaged");
  return result;
}

}  // namespace

namespace {

// Returns true for a symbolic link. Unix programs keep a file's mode in the upper half of its
// attributes.
bool is_symbolic_link(const uint8_t* entry) {
  constexpr uint16_t made_on_unix = 3, kinds = 0170000, link = 0120000;
  return u16(entry + 4) >> 8 == made_on_unix && (u32(entry + 38) >> 16 & kinds) == link;
}

// Adds a link, whose bytes are its target.
void add_link(const ArchiveFile& file, const ArchiveMember& member, ArchiveIndex& index) {
  constexpr uint64_t longest_target = 4096;
  try {
    if (member.bytes > longest_target) bad_image(member.name, "too long for a link");
    const std::vector<uint8_t> target = read_zip_member(file, member);
    index.links.push_back({member.name, link_target(member.name, {target.begin(), target.end()})});
  } catch (const Error&) {
    index.unread.push_back({member.name, "links that are damaged"});
  }
}

}  // namespace

ArchiveIndex read_zip_index(const ArchiveFile& file) {
  const Directory directory = find_directory(file);
  if (!file.holds(directory.offset, directory.bytes) || directory.bytes > largest_index ||
      directory.entries > directory.bytes / entry_bytes)
    file.fail("damaged: its directory exceeds the file");
  std::vector<uint8_t> bytes(directory.bytes);
  file.read(directory.offset, bytes.data(), bytes.size());
  ArchiveIndex index;
  size_t at = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const uint8_t* entry = bytes.data() + at;
    const size_t left = bytes.size() - at;
    if (left < entry_bytes || u32(entry) != entry_mark)
      file.fail(fmt::format("damaged: entry {} of its directory is invalid", i));
    const size_t name = u16(entry + 28), extra = u16(entry + 30), comment = u16(entry + 32);
    if (left - entry_bytes < name + extra + comment)
      file.fail(fmt::format("damaged: entry {} of its directory is truncated", i));
    const std::string raw(reinterpret_cast<const char*>(entry + entry_bytes), name);
    ArchiveMember member = {member_name(file, raw), u32(entry + 42), u32(entry + 20),
                            u32(entry + 24),        u16(entry + 10), u16(entry + 8),
                            u32(entry + 16)};
    read_zip64(file, entry + entry_bytes + name, extra, member);
    at += entry_bytes + name + extra + comment;
    if (member.name.empty()) continue;
    if (raw.ends_with('/')) {
      index.folders.push_back(member.name);
      continue;
    }
    if (!file.holds(member.offset, member.stored))
      file.fail(fmt::format("truncated: a member of {} bytes at {} exceeds the file's {} bytes",
                            member.stored, member.offset, file.size()));
    if (is_symbolic_link(entry))
      add_link(file, member, index);
    else
      index.members.push_back(std::move(member));
  }
  return index;
}

std::vector<uint8_t> read_zip_member(const ArchiveFile& file, const ArchiveMember& member) {
  const std::string name = file.path() + "/" + member.name;
  if (member.flags & flag_encrypted) bad_image(name, "it is encrypted");
  if (member.method != method_stored && member.method != method_deflate)
    bad_image(name, fmt::format("compressed by method {}; want stored or deflated", member.method));
  std::array<uint8_t, local_bytes> header;
  file.read(member.offset, header.data(), header.size());
  if (u32(header.data()) != local_mark) bad_image(name, "the archive has no member at its offset");
  // Names and extra fields may be longer in this header than in the directory.
  const uint64_t begin = member.offset + local_bytes + u16(&header[26]) + u16(&header[28]);
  // Deflate adds few bytes, even to data that do not compress.
  if (!file.holds(begin, member.stored) || member.stored > image_limits::file_bytes + (64 << 10))
    bad_image(name, "some of its bytes are missing from the archive");
  std::vector<uint8_t> stored(member.stored);
  file.read(begin, stored.data(), stored.size());
  if (member.method == method_deflate) stored = inflated(stored, member.bytes, name);
  if (stored.size() != member.bytes) bad_image(name, "its size differs from the archive's index");
  if (crc32(0, stored.data(), static_cast<uInt>(stored.size())) != member.checksum)
    bad_image(name, "its checksum is wrong");
  return stored;
}

}  // namespace booster
