#include "tests/data/files.h"

using namespace booster;
using namespace booster::test;

TEST_CASE("every kind of JPEG and PNG gives Pillow's pixels") {
  for (const char* name :
       {"baseline420.jpg", "baseline422.jpg", "baseline444.jpg", "progressive.jpg", "restart.jpg",
        "grey.jpg", "cmyk.jpg", "one.jpg", "rgb.png", "grey.png", "bilevel.png", "palette.png",
        "palette_transparent.png", "rgba.png", "grey_alpha.png", "interlaced.png", "grey16.png",
        "rgb16.png"}) {
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
