// Bad files: each is a cheap error of kind data that names the file and the reason.
#include "core/data/images/decoders.h"
#include "core/data/images/image_limits.h"
#include "tests/data/files.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <ctime>
#include <functional>

using namespace booster;
using namespace booster::test;

namespace {

// Returns true if decoding fails as it should.
bool refused(const std::string& file) {
  try {
    decode_image(bytes_of(file), "x.jpg");
    return false;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::data && contains(error.what(), "bad image 'x.jpg'");
  }
}

std::string reason(const std::string& file) {
  return error_of([&] { decode_image(bytes_of(file), "x.jpg"); });
}

// Returns the position of a JPEG's frame header (its marker byte).
size_t frame_header(const std::string& file) {
  size_t at = 2;
  while (static_cast<uint8_t>(file[at + 1]) < 0xc0 || static_cast<uint8_t>(file[at + 1]) > 0xc2)
    at += 2 + (static_cast<uint8_t>(file[at + 2]) << 8 | static_cast<uint8_t>(file[at + 3]));
  return at;
}

std::string jpeg_with_size(std::string file, int width, int height) {
  const size_t at = frame_header(file) + 5;
  file[at] = static_cast<char>(height >> 8);
  file[at + 1] = static_cast<char>(height);
  file[at + 2] = static_cast<char>(width >> 8);
  file[at + 3] = static_cast<char>(width);
  return file;
}

std::string word(int value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

std::string segment(int marker, const std::string& data) {
  return std::string{'\xff', static_cast<char>(marker)} + word(static_cast<int>(data.size()) + 2) +
         data;
}

// Returns a legal progressive grey JPEG of 2^log2_side by 2^log2_side blocks. After the first scan,
// each of `scans` (at most 882) adds nothing to one coefficient at one more bit of precision.
std::string scan_bomb(int log2_side, int scans) {
  const int side = 8 << log2_side, log2_blocks = 2 * log2_side;
  const int log2_run = std::min(14, log2_blocks);
  const auto zero_bits = [](int bits) { return std::string((bits + 7) / 8, '\0'); };
  // Huffman tables with the single code "0": for DC no difference; for AC nothing more in
  // 2^log2_run blocks.
  const std::string one_code = "\1" + std::string(15, '\0');
  std::string file = "\xff\xd8";
  file += segment(0xdb, std::string(1, '\0') + std::string(64, '\1'));
  file += segment(0xc2, "\x08" + word(side) + word(side) + std::string{'\1', '\1', '\x11', '\0'});
  file += segment(0xc4, std::string(1, '\0') + one_code + std::string(1, '\0'));
  file += segment(0xc4, "\x10" + one_code + static_cast<char>(log2_run << 4));
  file +=
      segment(0xda, std::string{'\1', '\1', '\0', '\0', '\0', '\0'}) + zero_bits(1 << log2_blocks);
  for (int scan = 0; scan < scans; ++scan) {
    const auto coefficient = static_cast<char>(1 + scan % 63);
    const int low = 13 - scan / 63, high = scan < 63 ? 0 : low + 1;
    file += segment(0xda, std::string{'\1', '\1', '\0', coefficient, coefficient,
                                      static_cast<char>(high << 4 | low)}) +
            zero_bits((1 + log2_run) << (log2_blocks - log2_run));
  }
  return file + "\xff\xd9";
}

// Returns this process's CPU time, which is independent of other load.
double seconds_of(const std::function<void()>& call) {
  const std::clock_t start = std::clock();
  call();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Disables MALLOC_PERTURB_ (set by Meson): filling fresh memory with a byte would count as memory
// used by an image.
const int no_filling = mallopt(M_PERTURB, 0);

long peak_megabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

TEST_CASE("a file cut at any byte is refused") {
  for (const char* name : {"baseline420.jpg", "progressive.jpg", "cmyk.jpg", "rgb.png",
                           "palette.png", "interlaced.png"}) {
    const std::string file = read_file(golden_path(name));
    for (size_t n = 0; n < file.size(); ++n) {
      INFO(name << " cut at " << n);
      CHECK(refused(file.substr(0, n)));
    }
  }
}

TEST_CASE("a changed byte gives an image or a bad image, never anything else") {
  for (const char* name : {"baseline420.jpg", "progressive.jpg", "orientation6.jpg", "rgba.png"}) {
    const std::string file = read_file(golden_path(name));
    for (size_t i = 0; i < file.size(); ++i)
      for (int value : {0x00, 0xff, 0x80 ^ static_cast<uint8_t>(file[i])}) {
        std::string changed = file;
        changed[i] = static_cast<char>(value);
        try {
          const Image image = decode_image(bytes_of(changed), "x.jpg", {.apply_orientation = true});
          CHECK(!image.empty());
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::data);
        }
      }
  }
}

TEST_CASE("a PNG with a wrong checksum is refused, in any chunk") {
  const std::string file = read_file(golden_path("palette.png"));
  for (const char* chunk : {"IHDR", "PLTE", "IDAT", "IEND"}) {
    std::string changed = file;
    const size_t at = changed.find(chunk);
    const size_t length =
        static_cast<uint8_t>(changed[at - 1]) | static_cast<uint8_t>(changed[at - 2]) << 8;
    changed[at + 4 + length] ^= 1;
    CAPTURE(chunk);
    CHECK(refused(changed));
  }
}

TEST_CASE("sizes beyond the limits are refused from the header alone") {
  const std::string jpeg = read_file(golden_path("baseline420.jpg"));
  const long before = peak_megabytes();
  CHECK(contains(reason(jpeg_with_size(jpeg, 65500, 65500)), "65500 x 65500"));
  CHECK(contains(reason(jpeg_with_size(jpeg, 16385, 16)), "16384"));
  CHECK(contains(reason(jpeg_with_size(jpeg, 8200, 8200)), "64 megapixels"));
  std::string png = read_file(golden_path("rgb.png"));
  png.replace(16, 8, std::string("\0\1\0\0\0\1\0\0", 8));  // 65536 x 65536
  CHECK(refused(png));
  CHECK(peak_megabytes() - before < 32);
}

TEST_CASE("a small file that claims 64 megapixels costs neither time nor memory") {
  const std::string baseline =
      jpeg_with_size(read_file(golden_path("baseline420.jpg")), 8192, 8192);
  const std::string progressive =
      jpeg_with_size(read_file(golden_path("progressive.jpg")), 8192, 8192);
  const long before = peak_megabytes();
  CHECK(seconds_of([&] { CHECK(refused(baseline)); }) < 1);
  CHECK(seconds_of([&] { CHECK(refused(progressive)); }) < 1);
  CHECK(peak_megabytes() - before < 64);
}

TEST_CASE("a progressive JPEG of endless scans is stopped early") {
  CHECK_FALSE(refused(scan_bomb(6, 400)));
  CHECK(contains(reason(scan_bomb(6, 600)), "too many scans"));
  // The number of scans is legal by itself, but not for so many pixels.
  const std::string wide = scan_bomb(9, 400);
  CHECK(wide.size() < 100'000);
  CHECK(seconds_of([&] { CHECK(contains(reason(wide), "too many scans")); }) < 2);
}

TEST_CASE("what is no image is told by what it looks like") {
  CHECK(contains(reason(""), "an empty file"));
  CHECK(contains(reason("<!DOCTYPE html><html>404</html>"), "an HTML file"));
  CHECK(contains(reason("GIF89a"), "a GIF file"));
  CHECK(contains(reason(std::string(100, '\0')), "begins with the bytes 00 00 00 00"));
}

TEST_CASE("only regular files of a sensible size are opened") {
  TemporaryFolder folder;
  CHECK(contains(error_of([&] { load_image(folder / "none.jpg"); }), "No such file"));
  CHECK(contains(error_of([&] { load_image(folder.path()); }), "not a regular file"));
  REQUIRE(mkfifo((folder / "pipe.jpg").c_str(), 0600) == 0);
  CHECK(contains(error_of([&] { load_image(folder / "pipe.jpg"); }), "not a regular file"));
  folder.write("big.jpg", "");
  std::filesystem::resize_file(folder / "big.jpg", image_limits::file_bytes + 1);
  CHECK(contains(error_of([&] { load_image(folder / "big.jpg"); }), "file too large"));
}

TEST_CASE("the name of a bad file cannot steer a terminal") {
  const std::string text = error_of([] { decode_image({}, "a\x1b[2J\nb\x07\xff.jpg"); });
  CHECK_MESSAGE(contains(text, "bad image 'a\\x1b[2J\\nb\\x07\\xff.jpg'"), text);
}
