// A JPEG file, with and without its orientation.
#include "core/data/images/decoders.h"
#include "tests/fuzz/target.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int64_t pixels = 0;
  const bool decoded = fuzz::accepts([&] {
    const Image image = decode_jpeg({data, size}, "input", {});
    pixels = int64_t{image.width()} * image.height();
    fuzz::promise(!image.empty(), "an image has pixels");
  });
  fuzz::accepts([&] {
    const Image image = decode_jpeg({data, size}, "input", {.apply_orientation = true});
    fuzz::promise(decoded && int64_t{image.width()} * image.height() == pixels,
                  "turning an image upright keeps its pixels");
  });
  return 0;
}
