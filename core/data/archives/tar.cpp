// Tar files: POSIX's ustar and pax (pax(1), IEEE 1003.1), and GNU's with long names and large
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

// Offsets and sizes of a header's fields.
struct Field {
  size_t offset, bytes;
};
constexpr Field name_field = {0, 100}, size_field = {124, 12}, checksum_field = {148, 8},
                prefix_field = {345, 155};
constexpr size_t type_at = 156, magic_at = 257;

std::string text_in(const Header& header, Field field) {
  const auto* begin = reinterpret_cast<const char*>(header.data()) + field.offset;
  return {begin, ::strnlen(begin, field.bytes)};
}

// Octal digits between blanks; or, with the first bit set, the rest as one number (GNU).
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

// What a header of type L or x says about the member behind it.
struct Extension {
  std::string name;  // "" if it says nothing
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

// Records "LENGTH KEY=VALUE\n"; the length counts the whole record.
void read_pax(const ArchiveFile& file, std::string_view text, Extension& extension) {
  const auto damaged = [&] { file.fail("damaged: a pax header's records do not fit together"); };
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
    file.fail(fmt::format("cut short; got {} bytes, want {} from {} on", file.size(), size, at));
}

std::string full_name(const Header& header, const Extension& extension) {
  if (!extension.name.empty()) return extension.name;
  const std::string name = text_in(header, name_field);
  // GNU keeps times where POSIX has the prefix.
  const bool is_posix = std::memcmp(header.data() + magic_at, "ustar\0", 6) == 0;
  const std::string prefix = is_posix ? text_in(header, prefix_field) : "";
  return prefix.empty() ? name : prefix + "/" + name;
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

std::vector<ArchiveMember> read_tar_index(const ArchiveFile& file) {
  std::vector<ArchiveMember> members;
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
    const bool extends = type == 'L' || type == 'K' || type == 'x';  // K: a link's target
    const bool is_link = type >= '1' && type <= '6';  // or a device, or a folder: without bytes
    const uint64_t size = is_link ? 0 : extends ? *own_size : extension.size.value_or(*own_size);
    at += block;
    check_holds(file, at, size);
    if (type == 'L') extension.name = read_text(file, at, size).c_str();
    if (type == 'x') read_pax(file, read_text(file, at, size), extension);
    if (type == '0' || type == '\0' || type == '7') {
      const std::string raw = full_name(header, extension);
      const std::string name = member_name(file, raw);
      if (!raw.ends_with('/') && !name.empty()) members.push_back({name, at, size, size});
    }
    if (!extends) extension = {};
    const uint64_t padded = (size + block - 1) / block * block;
    check_holds(file, at, padded);
    at += padded;
  }
  if (!has_end)
    warn(fmt::format("{}: a tar file without its end, perhaps cut short; read the {} files in it",
                     file.path(), members.size()));
  return members;
}

}  // namespace booster
