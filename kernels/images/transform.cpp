// Converts decoded images to a batch of floats: one byte, or one float, per lane.
#include "kernels/catalogue.h"
#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t bytes_per_block = 1024;
constexpr int fraction_bits = 22;  // of a weight

// The call's upload and scratch memory. Addresses are already in the device's memory.
struct Memory {
  char* upload;
  char* scratch;

  template <class T>
  KERNEL_FN T* at(const ImageBytes& bytes) const {
    if (bytes.place == ImagePlace::upload) return reinterpret_cast<T*>(upload + bytes.offset);
    if (bytes.place == ImagePlace::scratch) return reinterpret_cast<T*>(scratch + bytes.offset);
    return reinterpret_cast<T*>(bytes.offset);
  }
};

KERNEL_FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

KERNEL_FN uint8_t rounded(int32_t sum) {
  const int32_t value = sum >> fraction_bits;
  return uint8_t(value < 0 ? 0 : (value > 255 ? 255 : value));
}

// Writes byte i of a pass's output.
KERNEL_FN void write_byte(const Memory& memory, const ImagePass& pass, int64_t i) {
  const int32_t row_bytes = pass.columns * pass.channels;
  const int32_t row = int32_t(i / row_bytes), byte = int32_t(i - int64_t(row) * row_bytes);
  const int32_t pixel = byte / pass.channels, output = pass.vertical ? row : pixel;
  const int64_t first = memory.at<const int32_t>(pass.first)[output];
  const int64_t step = pass.vertical ? pass.in_row_bytes : pass.channels;
  const int64_t begin = pass.vertical
                            ? first * pass.in_row_bytes + byte
                            : row * pass.in_row_bytes + (first - pixel) * pass.channels + byte;
  const uint8_t* in = memory.at<const uint8_t>(pass.in) + begin;
  const int32_t* weights = memory.at<const int32_t>(pass.weights) + int64_t(output) * pass.count;
  int32_t sum = 1 << (fraction_bits - 1);
  for (int32_t k = 0; k < pass.count; ++k) sum += in[k * step] * weights[k];
  memory.at<uint8_t>(pass.out)[i] = rounded(sum);
}

// Finds the value of the topmost erasure over (channel, y, x); returns false if there is none.
KERNEL_FN bool find_erased(const Memory& memory, const ImageResult& image, int64_t channel,
                           int32_t y, int32_t x, float* value) {
  const ImageErasure* all = memory.at<const ImageErasure>(image.erasures);
  for (int64_t e = image.erasure_count; e-- > 0;) {
    const ImageErasure& box = all[e];
    const int32_t in_y = y - box.top, in_x = x - box.left;
    if (in_y < 0 || in_y >= box.height || in_x < 0 || in_x >= box.width) continue;
    const int64_t place = (channel * box.height + in_y) * box.width + in_x;
    *value = memory.at<const float>(box.values)[box.is_flat ? channel : place];
    return true;
  }
  return false;
}

// Returns float i of an image's result.
KERNEL_FN float result_of(const Memory& memory, const ImageResult& image, int64_t i, int32_t height,
                          int32_t width) {
  const int64_t row = i / width, channel = row / height;
  const int32_t x = int32_t(i - row * width), y = int32_t(row - channel * height);
  float value = 0;
  if (find_erased(memory, image, channel, y, x, &value)) return value;
  const int64_t pixel = image.is_flipped ? width - 1 - x : x;
  const int64_t byte = pixel * image.channels + (image.channels == 1 ? 0 : channel);
  const uint8_t* in = memory.at<const uint8_t>(image.in) + y * image.in_row_bytes;
  return memory.at<const float>(image.values)[256 * channel + in[byte]];
}

int64_t blocks_for(int64_t n) { return (n + bytes_per_block - 1) / bytes_per_block; }

void run_round(Memory memory, const ImagePass* passes, int64_t images, int64_t largest) {
  const int64_t parts = blocks_for(largest);
  for_each_block(images * parts, [=] ON_DEVICE(int64_t block) {
    const ImagePass pass = passes[block / parts];
    const int64_t size = int64_t(pass.rows) * pass.columns * pass.channels;
    const int64_t begin = block % parts * bytes_per_block;
    for_each_lane(smaller(bytes_per_block, size - begin),
                  [&](int64_t i) { write_byte(memory, pass, begin + i); });
  });
}

}  // namespace

void transform_images(View out, View upload, View scratch, ImageBatch batch) {
  const Memory memory = {upload.as<char>(), scratch.as<char>()};
  const int64_t images = out.shape[0];
  const auto* passes = reinterpret_cast<const ImagePass*>(memory.upload + batch.passes);
  for (int64_t round = 0; round < batch.rounds; ++round)
    run_round(memory, passes + round * images, images, batch.largest[round]);
  const auto* results = reinterpret_cast<const ImageResult*>(memory.upload + batch.results);
  const int64_t size = out.shape[1] * out.shape[2] * out.shape[3], parts = blocks_for(size);
  const int32_t height = int32_t(out.shape[2]), width = int32_t(out.shape[3]);
  float* values = out.as<float>();
  for_each_block(images * parts, [=] ON_DEVICE(int64_t block) {
    const int64_t begin = block % parts * bytes_per_block;
    const ImageResult image = results[block / parts];
    float* to = values + block / parts * size + begin;
    for_each_lane(smaller(bytes_per_block, size - begin), [&](int64_t i) {
      to[i] = result_of(memory, image, begin + i, height, width);
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
