#include "core/data/images/image.h"

#include "core/data/images/decoders.h"
#include "core/data/images/image_file.h"
#include "core/data/images/image_limits.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace booster {

void Image::reshape(int width, int height, int channels) {
  check(width > 0 && height > 0 && (channels == 1 || channels == 3),
        "image: wrong size; got {} x {} with {} channels, want at least 1 x 1 with 1 or 3", width,
        height, channels);
  const size_t wanted = size_t(width) * height * channels + slack;
  if (wanted > capacity_) {
    pixels_.reset();
    pixels_ = std::make_unique_for_overwrite<uint8_t[]>(wanted);
    capacity_ = wanted;
  }
  width_ = width;
  height_ = height;
  channels_ = channels;
}

void bad_image(const std::string& name, const std::string& reason) {
  fail_data("bad image '{}': {}", terminal_text(name), reason);
}

void check_image_size(const std::string& name, int64_t width, int64_t height) {
  using namespace image_limits;
  if (width < 1 || height < 1 || width > side || height > side)
    bad_image(name, fmt::format("size out of range; got {} x {}, want 1 to {} per side", width,
                                height, side));
  if (width * height > pixels)
    bad_image(name, fmt::format("too many pixels; got {} x {}, want at most {} megapixels", width,
                                height, pixels >> 20));
}

namespace {

using Bytes = std::span<const uint8_t>;

bool starts_with(Bytes file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

// Guesses the type of a file that is neither JPEG nor PNG, for the error.
std::string guess_kind(Bytes file) {
  struct Kind {
    std::string_view magic;
    const char* name;
  };
  static constexpr Kind kinds[] = {
      {"GIF8", "a GIF file"},   {"BM", "a BMP file"},        {"RIFF", "a WebP or RIFF file"},
      {"<!", "an HTML file"},   {"<html", "an HTML file"},   {"<?xml", "an XML file"},
      {"II*", "a TIFF file"},   {"MM\0*", "a TIFF file"},    {"%PDF", "a PDF file"},
      {"PK\3\4", "a ZIP file"}, {"\x1f\x8b", "a gzip file"},
  };
  if (file.empty()) return "an empty file";
  for (const Kind& kind : kinds)
    if (starts_with(file, kind.magic)) return kind.name;
  std::string first;
  for (uint8_t byte : file.first(std::min<size_t>(4, file.size())))
    first += fmt::format("{}{:02x}", first.empty() ? "" : " ", byte);
  return "a file that begins with the bytes " + first;
}

class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) bad_image(path, fmt::format("cannot open it: {}", std::strerror(errno)));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  size_t checked_size(const std::string& path) const {
    struct stat status;
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
      bad_image(path, "not a regular file");
    const auto size = static_cast<size_t>(status.st_size);
    if (size > image_limits::file_bytes)
      bad_image(path, fmt::format("file too large; got {} MB, want at most {} MB", size >> 20,
                                  image_limits::file_bytes >> 20));
    return size;
  }

  // Reads up to bytes.size() bytes and shrinks `bytes` to what was read.
  void read_all(const std::string& path, std::vector<uint8_t>& bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = read(descriptor_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) bad_image(path, fmt::format("cannot read it: {}", std::strerror(errno)));
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    bytes.resize(done);
  }

 private:
  int descriptor_;
};

}  // namespace

Image decode_image(Bytes file, const std::string& name, const DecodeOptions& options) {
  if (starts_with(file, "\xff\xd8\xff")) return decode_jpeg(file, name, options);
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file, name, options);
  bad_image(name, fmt::format("wrong kind; got {}, want JPEG or PNG", guess_kind(file)));
}

std::vector<uint8_t> read_image_file(const std::string& path) {
  const File file(path);
  std::vector<uint8_t> bytes(file.checked_size(path));
  file.read_all(path, bytes);
  return bytes;
}

Image load_image(const std::string& path, const DecodeOptions& options) {
  return decode_image(read_image_file(path), path, options);
}

}  // namespace booster
