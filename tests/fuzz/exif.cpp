// EXIF data, from its TIFF header on: the orientation is one that upright() supports.
#include "core/data/images/decoders.h"
#include "tests/fuzz/target.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int orientation = exif_orientation({data, size});
  fuzz::promise(orientation >= 1 && orientation <= 8, "an orientation is 1 to 8");
  Image image(3, 2, 1);
  for (int i = 0; i < 6; ++i) image.data()[i] = static_cast<uint8_t>(1 << i);
  const Image turned = upright(image, orientation);
  int seen = 0;
  for (int i = 0; i < 6; ++i) seen |= turned.data()[i];
  fuzz::promise(seen == 63, "every pixel is kept");
  return 0;
}
