#include "core/data/images/decoders.h"
#include "tests/data/files.h"

using namespace booster;
using namespace booster::test;

TEST_CASE("every kind of JPEG and PNG gives Pillow's pixels") {
  for (const char* name :
       {"baseline420.jpg", "baseline422.jpg", "baseline444.jpg", "progressive.jpg", "restart.jpg",
        "grey.jpg", "cmyk.jpg", "one.jpg", "rgb.png", "grey.png", "bilevel.png", "palette.png",
        "palette_transparent.png", "rgba.png", "grey_alpha.png", "interlaced.png", "grey16.png",
        "rgb16.png", "grey_alpha16.png"}) {
    CAPTURE(name);
    CHECK(difference(load_image(golden_path(name)), golden_pixels(name)) == 0);
  }
}

TEST_CASE("EXIF orientation is ignored unless asked for") {
  for (int value = 1; value <= 8; ++value) {
    const std::string name = "orientation" + std::to_string(value) + ".jpg";
    CAPTURE(name);
    CHECK(difference(load_image(golden_path(name), {.apply_orientation = true}),
                     golden_pixels(name)) == 0);
    CHECK(load_image(golden_path(name)).width() == 24);
  }
}

TEST_CASE("EXIF data behind a PNG's pixels count, and more than those before them") {
  CHECK(difference(load_image(golden_path("late_orientation.png"), {.apply_orientation = true}),
                   golden_pixels("late_orientation.png")) == 0);
}

namespace {

// Returns EXIF data with one entry, the orientation. `value` is its field of four bytes;
// `elsewhere` follows the directory, at byte 26.
std::string exif_data(bool little, int type, int count, const std::string& value,
                      const std::string& elsewhere = "") {
  const auto number = [little](int x, int bytes) {
    std::string text(static_cast<size_t>(bytes), '\0');
    for (int i = 0; i < bytes; ++i)
      text[static_cast<size_t>(little ? i : bytes - 1 - i)] = static_cast<char>(x >> 8 * i);
    return text;
  };
  return (little ? "II" : "MM") + number(42, 2) + number(8, 4) + number(1, 2) + number(0x0112, 2) +
         number(type, 2) + number(count, 4) + value + number(0, 4) + elsewhere;
}

int orientation_in(const std::string& exif) { return exif_orientation(bytes_of(exif)); }

}  // namespace

// Pillow 13 reads the same values from these bytes.
TEST_CASE("an orientation is read as the type says that it is stored") {
  using namespace std::string_literals;
  const std::string le16 = "\6\0\0\0"s, be16 = "\0\6\0\0"s, be32 = "\0\0\0\6"s;
  for (const int type : {3, 8}) {  // 16 bits
    CHECK(orientation_in(exif_data(true, type, 1, le16)) == 6);
    CHECK(orientation_in(exif_data(false, type, 1, be16)) == 6);
  }
  for (const int type : {4, 9}) {  // 32 bits
    CHECK(orientation_in(exif_data(true, type, 1, le16)) == 6);
    CHECK(orientation_in(exif_data(false, type, 1, be32)) == 6);
    CHECK(orientation_in(exif_data(false, type, 1, be16)) == 1);
  }
  CHECK(orientation_in(exif_data(false, 6, 1, le16)) == 6);  // a signed byte
  for (const int type : {1, 2, 7, 99})  // a byte, text, undefined, an unknown type
    CHECK(orientation_in(exif_data(true, type, 1, le16)) == 1);
  CHECK(orientation_in(exif_data(true, 3, 0, le16)) == 1);
  CHECK(orientation_in(exif_data(true, 3, 2, "\6\0\3\0"s)) == 6);
  CHECK(orientation_in(exif_data(true, 3, 3, "\x1a\0\0\0"s, "\6\0\1\0\1\0"s)) == 6);
  CHECK(orientation_in(exif_data(true, 3, 3, "\xff\xff\xff\xff"s)) == 1);
}

TEST_CASE("the kind of a file is told by its content, not by its name") {
  TemporaryFolder folder;
  folder.write("a.jpg", read_file(golden_path("rgb.png")));
  CHECK(difference(load_image(folder / "a.jpg"), golden_pixels("rgb.png")) == 0);
}

TEST_CASE("an encoded image comes back nearly the same, grey and colour") {
  for (int channels : {1, 3}) {
    Image image(40, 30, channels);
    for (int y = 0; y < 30; ++y)
      for (int x = 0; x < 40 * channels; ++x)
        image.row(y)[x] = static_cast<uint8_t>(60 + 2 * y + x / channels);
    const std::string file = encode_jpeg(image, 95);
    const Image back = decode_image(bytes_of(file), "encoded");
    CHECK(back.channels() == channels);
    CHECK(difference(back, image) <= 6);
  }
  CHECK_THROWS_AS(encode_jpeg(gradient(4, 4, 3), 0), Error);
  CHECK_THROWS_AS(encode_jpeg(Image()), Error);
}
