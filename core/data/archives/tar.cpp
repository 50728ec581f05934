// Tar files: POSIX ustar and pax (pax(1), IEEE 1003.1), and GNU tar with long names and large
// sizes.
#include "core/data/archives/archive.h"

#include "platform/error.h"
#include "platform/warn.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

namespace booster {

namespace {

constexpr size_t block = 512, longest_extension = 1 << 20;

using Header = std::array<uint8_t, block>;

// Offset and size of a header field.
struct Field {
  size_t offset, bytes;
};
constexpr Field name_field = {0, 100}, size_field = {124, 12}, checksum_field = {148, 8},
                target_field = {157, 100}, prefix_field = {345, 155};
constexpr size_t type_at = 156, magic_at = 257;

std::string text_in(const Header& header, Field field) {
  const auto* begin = reinterpret_cast<const char*>(header.data()) + field.offset;
  return {begin, ::strnlen(begin, field.bytes)};
}

// Reads octal digits between blanks; with the first bit set, the remaining bits are one number
// (GNU).
std::optional<uint64_t> number_in(const uint8_t* header, Field field) {
  const uint8_t* at = header + field.offset;
  const uint8_t* end = at + field.bytes;
  uint64_t value = 0;
  if (*at == 0x80) {
    while (++at < end) {
      if (value >> 56) return {};
      value = value << 8 | *at;
    }
    return value;
  }
  while (at < end && *at == ' ') ++at;
  if (at == end || *at < '0' || *at > '7') return {};
  for (; at < end && *at >= '0' && *at <= '7'; ++at) value = value * 8 + (*at - '0');
  return at == end || *at == ' ' || *at == 0 ? std::optional(value) : std::nullopt;
}

// The next member's facts from headers of type L, K or x; "" for absent ones.
struct Extension {
  std::string name;
  std::string target;  // of a link
  std::optional<uint64_t> size;
};

std::string read_text(const ArchiveFile& file, uint64_t offset, uint64_t bytes) {
  if (bytes > longest_extension)
    file.fail(fmt::format("the header at {} is too long; got {} bytes, want at most {}", offset,
                          bytes, longest_extension));
  std::string text(bytes, '\0');
  file.read(offset, text.data(), text.size());
  return text;
}

// Reads records "LENGTH KEY=VALUE\n"; LENGTH counts the whole record.
void read_pax(const ArchiveFile& file, std::string_view text, Extension& extension) {
  const auto damaged = [&] { file.fail("damaged: a pax header's records are inconsistent"); };
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length > text.size() || length < digits + 3 ||
        text[digits] != ' ' || text[length - 1] != '\n')
      damaged();
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) damaged();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extension.name = value;
    if (key == "linkpath") extension.target = value;
    if (key == "size") {
      uint64_t size = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) damaged();
      extension.size = size;
    }
    text.remove_prefix(length);
  }
}

void check_holds(const ArchiveFile& file, uint64_t at, uint64_t size) {
  if (!file.holds(at, size))
    file.fail(fmt::format("truncated; got {} bytes, want {} from {} on", file.size(), size, at));
}

std::string full_name(const Header& header, const Extension& extension) {
  if (!extension.name.empty()) return extension.name;
  const std::string name = text_in(header, name_field);
  // GNU stores times where POSIX has the prefix.
  const bool is_posix = std::memcmp(header.data() + magic_at, "ustar\0", 6) == 0;
  const std::string prefix = is_posix ? text_in(header, prefix_field) : "";
  return prefix.empty() ? name : prefix + "/" + name;
}

constexpr char hard_link = '1', symbolic_link = '2', folder = '5';

bool is_file(char type) { return type == '0' || type == '\0' || type == '7'; }
bool extends(char type) { return type == 'L' || type == 'K' || type == 'x'; }

// Adds a member, whose bytes begin at `at`, to the list for its type.
void add(const ArchiveFile& file, const Header& header, const Extension& extension, uint64_t at,
         uint64_t size, ArchiveIndex& index) {
  const char type = static_cast<char>(header[type_at]);
  if (type == 'g') return;  // applies to all members, but gives neither names nor sizes
  const std::string raw = full_name(header, extension), name = member_name(file, raw);
  if (name.empty()) return;
  const std::string target =
      extension.target.empty() ? text_in(header, target_field) : extension.target;
  if (type == folder || (is_file(type) && raw.ends_with('/')))
    index.folders.push_back(name);
  else if (is_file(type))
    index.members.push_back({name, at, size, size});
  else if (type == hard_link)
    index.links.push_back({name, member_name(file, target)});
  else if (type == symbolic_link)
    index.links.push_back({name, link_target(name, target)});
  else if (type == '3' || type == '4' || type == '6')
    index.unread.push_back({name, "devices or pipes"});
  else
    index.unread.push_back({name, "of a nonstandard kind"});
}

}  // namespace

bool is_tar_header(const uint8_t* header) {
  const auto wanted = number_in(header, checksum_field);
  uint64_t sum = 0;
  for (size_t i = 0; i < block; ++i) {
    const bool within = i >= checksum_field.offset && i < checksum_field.offset + 8;
    sum += within ? ' ' : header[i];
  }
  return wanted == sum;
}

ArchiveIndex read_tar_index(const ArchiveFile& file) {
  ArchiveIndex index;
  Extension extension;
  Header header;
  bool has_end = false;
  for (uint64_t at = 0; at < file.size();) {
    file.read(at, header.data(), block);
    has_end = std::ranges::all_of(header, [](uint8_t byte) { return byte == 0; });
    if (has_end) break;
    if (!is_tar_header(header.data()))
      file.fail(fmt::format("damaged: the header at {} has a wrong checksum", at));
    const auto own_size = number_in(header.data(), size_field);
    if (!own_size) file.fail(fmt::format("damaged: the header at {} has no size", at));
    const char type = static_cast<char>(header[type_at]);
    const bool has_no_bytes = type >= '1' && type <= '6';  // a link, a device or a folder
    const uint64_t size = has_no_bytes    ? 0
                          : extends(type) ? *own_size
                                          : extension.size.value_or(*own_size);
    at += block;
    check_holds(file, at, size);
    if (type == 'L') extension.name = read_text(file, at, size).c_str();
    if (type == 'K') extension.target = read_text(file, at, size).c_str();
    if (type == 'x') read_pax(file, read_text(file, at, size), extension);
    if (!extends(type)) {
      add(file, header, extension, at, size, index);
      extension = {};
    }
    const uint64_t padded = (size + block - 1) / block * block;
    check_holds(file, at, padded);
    at += padded;
  }
  if (!has_end)
    warn(fmt::format("{}: a tar file without its end, perhaps truncated; read the {} files in it",
                     file.path(), index.members.size()));
  return index;
}

}  // namespace booster
