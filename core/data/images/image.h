// Image: 8-bit pixels in memory, decoded from files.
//
// Decoding does not trust its input. It detects the format from the content and checks sizes in the
// header before it allocates pixels. Any damage that the decoders report becomes an error that
// names the file. Distinct images may be used from distinct threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace booster {

// Rows of `width` pixels, each of 1 (grey) or 3 (RGB) interleaved bytes, without gaps between rows.
class Image {
 public:
  Image() = default;
  // Contents are undefined.
  Image(int width, int height, int channels) { reshape(width, height, channels); }

  int width() const { return width_; }
  int height() const { return height_; }
  int channels() const { return channels_; }
  size_t row_bytes() const { return size_t(width_) * channels_; }
  size_t bytes() const { return row_bytes() * height_; }
  bool empty() const { return bytes() == 0; }

  uint8_t* data() { return pixels_.get(); }
  const uint8_t* data() const { return pixels_.get(); }
  uint8_t* row(int y) { return data() + y * row_bytes(); }
  const uint8_t* row(int y) const { return data() + y * row_bytes(); }

  // Changes the size; contents become undefined. Memory is reused if it is large enough.
  void reshape(int width, int height, int channels);

  // Readable and writable bytes after the last pixel, so that a pixel of three bytes can be copied
  // as four.
  static constexpr size_t slack = 32;

 private:
  int width_ = 0, height_ = 0, channels_ = 0;
  size_t capacity_ = 0;
  std::unique_ptr<uint8_t[]> pixels_;
};

// How resize() weighs pixels (resize.h).
enum class Interpolation { bilinear, bicubic };

// A rectangle of whole pixels.
struct Box {
  int left = 0, top = 0, width = 0, height = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

// How affine() interpolates between pixels (affine.h).
enum class AffineFilter { nearest, bilinear };

// How padded() fills the border (padding.h), by torchvision's names. The row 1 2 3 4 with two
// pixels added on each side:
enum class PaddingMode {
  constant,   // f f 1 2 3 4 f f, where f is the fill
  edge,       // 1 1 1 2 3 4 4 4
  reflect,    // 3 2 1 2 3 4 3 2
  symmetric,  // 2 1 1 2 3 4 4 3
};

// The number of pixels to add at each side.
struct Borders {
  int left = 0, top = 0, right = 0, bottom = 0;
  Borders() = default;
  Borders(int all) : Borders(all, all) {}  // NOLINT: 4 is a border
  Borders(int sides, int top_and_bottom) : Borders(sides, top_and_bottom, sides, top_and_bottom) {}
  Borders(int left, int top, int right, int bottom)
      : left(left), top(top), right(right), bottom(bottom) {}
};

// The colour of a constant border: one value for all channels, or red, green and blue.
struct Fill {
  std::array<int, 3> values;
  bool is_color;
  Fill(int all) : values{all, all, all}, is_color(false) {}  // NOLINT: 128 is a grey
  Fill(int red, int green, int blue) : values{red, green, blue}, is_color(true) {}
};

struct DecodeOptions {
  // Rotates the image according to its EXIF orientation. Off by default, as in torchvision's
  // loader.
  bool apply_orientation = false;
};

// Decodes a JPEG (libjpeg-turbo: slow integer DCT, fancy upsampling) or a PNG, detected from the
// content, as Pillow does. Grey stays one channel, CMYK becomes RGB, palettes are expanded, alpha
// is dropped. 16-bit samples keep the high byte, but grey ones without alpha are scaled (Pillow
// clips them). `name` is for messages. Throws an error of kind data that starts with "bad image
// 'NAME'" for all other content.
Image decode_image(std::span<const uint8_t> file, const std::string& name,
                   const DecodeOptions& options = {});

// Reads a regular file; otherwise as decode_image.
Image load_image(const std::string& path, const DecodeOptions& options = {});

// Encodes a JPEG with libjpeg's quality 1..100 (4:2:0 colour); returns the file's bytes.
std::string encode_jpeg(const Image& image, int quality = 90);

// --- An image with pending changes
//
// Transforms only record their work. When the pixels are needed, the image computes only the region
// that the result requires. A crop after a resize thus computes only the kept pixels. The pixels
// equal the result of each step in full. One object is for one thread; distinct objects may
// share a source.

struct ImagePlan;   // image_plan.h: the pending work as plain data
struct PixelView;   // resize.h
class StoredImage;  // stored_image.h: pixels that a GPU may hold

// Values that replace a part of an image: one per channel, or channels x height x width.
struct ErasedBox {
  Box box;
  std::vector<float> values;
};

class LazyImage {
 public:
  // Starts from `source`. `name` is for messages.
  LazyImage(std::shared_ptr<const Image> source, std::string name);
  // Starts from `stored`. `pixels` are its pixels if they are already on the host, else null.
  LazyImage(std::shared_ptr<const StoredImage> stored, std::shared_ptr<const Image> pixels,
            std::string name);

  int width() const { return window_.width; }
  int height() const { return window_.height; }
  int channels() const { return rgb_ ? 3 : source_channels_; }
  const std::string& name() const { return name_; }

  // Throws an error of kind data, naming the image, if the result is too large.
  void resize(int width, int height, Interpolation interpolation);
  // Crops to `box`, which must be within the image.
  void crop(const Box& box);
  // Adds black pixels at each side.
  void pad(int left, int top, int right, int bottom);
  void flip_horizontal();
  // Repeats grey in three equal channels.
  void repeat_grey();
  // Converts bytes to floats, byte / 255.
  void to_tensor();
  // Normalises: (value - mean) / std in f32, with one mean and std per channel, or one for all.
  void normalize(const std::vector<double>& mean, const std::vector<double>& std);

  // Replaces the tensor's values in `box`, which must be within the image: one value per channel,
  // or channels x height x width of the box. Changes of geometry may not follow; normalize() also
  // applies to these values.
  void erase(const Box& box, std::vector<float> values);
  // Computes the pixels now and continues with the result of `change`.
  void change_pixels(const std::function<Image(Image pixels)>& change);

  // Returns the pixels, whether or not to_tensor was called.
  Image pixels() const;
  // Writes channels() x height() x width() floats in that order; requires to_tensor.
  void write(float* out) const;
  // Returns the same work as a plan; computes only the weights. Requires to_tensor.
  ImagePlan plan() const;

 private:
  struct Stage {
    Box crop;  // of the previous stage's result
    int width, height;
    Interpolation interpolation;
  };
  struct Workshop;

  const Image& source() const;
  void settle();
  void check_not_erased(const char* what) const;
  void write_erased(float* out) const;
  static Workshop& workshop();
  PixelView shown(Workshop& workshop) const;
  PixelView region(size_t stages, const Box& need, Workshop& workshop) const;
  void plan_region(size_t stages, const Box& need, ImagePlan& plan) const;
  void check_is_tensor() const;

  std::shared_ptr<const StoredImage> stored_;    // null if the source was changed
  mutable std::shared_ptr<const Image> source_;  // null: not needed on the host yet
  int source_width_, source_channels_;
  std::string name_;
  std::vector<Stage> stages_;
  Box window_;  // visible part of the last stage
  bool flipped_ = false, rgb_ = false, is_tensor_ = false;
  std::array<std::array<float, 256>, 3> values_;  // of each byte, per channel; valid once a tensor
  std::vector<ErasedBox> erased_;
};

}  // namespace booster
