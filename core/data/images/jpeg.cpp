#include "core/data/images/decoders.h"
#include "core/data/images/image_limits.h"
#include "platform/error.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <jpeglib.h>
#include <jerror.h>

namespace booster {
namespace {

// libjpeg leaves a failed call by longjmp, which must not skip a C++ destructor. So all its state
// is in this plain struct, and the functions that call setjmp own nothing.
struct Frame {
  jpeg_error_mgr errors;
  jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr info) {
  auto* frame = static_cast<Frame*>(info->client_data);
  info->err->format_message(info, frame->message);
  longjmp(frame->escape, 1);
}

// Returns true for warnings about metadata, which leave the pixels intact. Every other warning
// means damage.
bool is_harmless(int code) {
  return code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_NOT_SEQUENTIAL;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave(info);
}

void install(Frame& frame, j_common_ptr info) {
  info->err = jpeg_std_error(&frame.errors);
  info->client_data = &frame;
  frame.errors.error_exit = leave;
  frame.errors.emit_message = on_message;
  frame.message[0] = 0;
}

struct Decoder {
  jpeg_decompress_struct info;  // first, so that limit_scans can cast it to Decoder
  Frame frame;
  jpeg_progress_mgr progress;
  int64_t scanned_pixels;
};

// Limits the work; called for every row of blocks in every scan. Progressive files may hold
// thousands of scans that cost a few bytes each:
// https://libjpeg-turbo.org/pmwiki/uploads/About/TwoIssueswiththeJPEGStandard.pdf
void limit_scans(j_common_ptr common) {
  auto* info = reinterpret_cast<j_decompress_ptr>(common);
  auto* decoder = reinterpret_cast<Decoder*>(info);
  decoder->scanned_pixels += int64_t{info->image_width} * info->max_v_samp_factor * DCTSIZE;
  if (info->input_scan_number <= image_limits::scans &&
      decoder->scanned_pixels <= image_limits::scanned_pixels)
    return;
  std::snprintf(decoder->frame.message, JMSG_LENGTH_MAX,
                "too many scans; got %d of %u x %u, want at most %d and a second of work",
                info->input_scan_number, info->image_width, info->image_height,
                image_limits::scans);
  longjmp(decoder->frame.escape, 1);
}

bool read_header(Decoder& decoder, std::span<const uint8_t> file, bool want_exif) {
  if (setjmp(decoder.frame.escape)) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.progress.progress_monitor = limit_scans;
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, file.data(), file.size());
  if (want_exif) jpeg_save_markers(&decoder.info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

// Converts as Pillow does: inks are stored inverted (Adobe's convention), and black scales the
// others.
void cmyk_to_rgb(const uint8_t* in, uint8_t* out, int width) {
  for (int x = 0; x < width; ++x, in += 4, out += 3)
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - in[c]) * in[3] + 128;
      const int value = in[3] - (((product >> 8) + product) >> 8);
      out[c] = static_cast<uint8_t>(value < 0 ? 0 : value);
    }
}

void read_rows(j_decompress_ptr info, Image& image) {
  JSAMPROW rows[4];
  while (info->output_scanline < info->output_height) {
    const int first = static_cast<int>(info->output_scanline);
    const int n = std::min(4, image.height() - first);
    for (int i = 0; i < n; ++i) rows[i] = image.row(first + i);
    jpeg_read_scanlines(info, rows, n);
  }
}

void read_cmyk_rows(j_decompress_ptr info, Image& image, uint8_t* row) {
  while (info->output_scanline < info->output_height) {
    uint8_t* out = image.row(static_cast<int>(info->output_scanline));
    jpeg_read_scanlines(info, &row, 1);
    cmyk_to_rgb(row, out, image.width());
  }
}

// Reads the pixels. `cmyk_row` holds one row of four channels; null for three channels or fewer.
bool read_pixels(Decoder& decoder, Image& image, uint8_t* cmyk_row) {
  if (setjmp(decoder.frame.escape)) return false;
  j_decompress_ptr info = &decoder.info;
  jpeg_start_decompress(info);  // reads all scans of a progressive file
  info->progress = nullptr;
  if (cmyk_row)
    read_cmyk_rows(info, image, cmyk_row);
  else
    read_rows(info, image);
  jpeg_finish_decompress(info);  // reads to the end marker; a file without one is damaged
  return true;
}

class JpegReader {
 public:
  JpegReader(std::span<const uint8_t> file, const std::string& name, bool want_exif) : name_(name) {
    install(decoder_.frame, reinterpret_cast<j_common_ptr>(&decoder_.info));
    if (!read_header(decoder_, file, want_exif)) bad_image(name, decoder_.frame.message);
    check_image_size(name, decoder_.info.image_width, decoder_.info.image_height);
  }

  Image pixels() {
    j_decompress_ptr info = &decoder_.info;
    const int components = info->num_components;
    if (components != 1 && components != 3 && components != 4)
      bad_image(name_, fmt::format("want 1, 3 or 4 colour components; got {}", components));
    const bool cmyk = components == 4;
    info->out_color_space = components == 1 ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    Image image(static_cast<int>(info->image_width), static_cast<int>(info->image_height),
                components == 1 ? 1 : 3);
    std::vector<uint8_t> row(cmyk ? size_t{4} * info->image_width : 0);
    info->mem->max_memory_to_use = static_cast<long>(image_limits::memory - image.bytes());
    if (!read_pixels(decoder_, image, cmyk ? row.data() : nullptr))
      bad_image(name_, decoder_.frame.message);
    return image;
  }

  int orientation() const {
    constexpr size_t signature = 6;  // "Exif", 0, 0
    for (jpeg_saved_marker_ptr m = decoder_.info.marker_list; m; m = m->next)
      if (m->data_length > signature && std::memcmp(m->data, "Exif\0\0", signature) == 0)
        return exif_orientation({m->data + signature, m->data_length - signature});
    return 1;
  }

 private:
  struct OwnedDecoder : Decoder {
    OwnedDecoder() : Decoder{} {}
    ~OwnedDecoder() { jpeg_destroy_decompress(&info); }
  };

  const std::string& name_;
  OwnedDecoder decoder_;
};

struct Encoder {
  jpeg_compress_struct info;
  Frame frame;
  unsigned char* file;
  unsigned long size;
};

bool write_file(Encoder& encoder, const Image& image, int quality) {
  if (setjmp(encoder.frame.escape)) return false;
  j_compress_ptr info = &encoder.info;
  jpeg_mem_dest(info, &encoder.file, &encoder.size);
  info->image_width = static_cast<JDIMENSION>(image.width());
  info->image_height = static_cast<JDIMENSION>(image.height());
  info->input_components = image.channels();
  info->in_color_space = image.channels() == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, quality, TRUE);
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < info->image_height) {
    auto* row = const_cast<uint8_t*>(image.row(static_cast<int>(info->next_scanline)));
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                  const DecodeOptions& options) {
  JpegReader reader(file, name, options.apply_orientation);
  const int orientation = options.apply_orientation ? reader.orientation() : 1;
  Image image = reader.pixels();
  return orientation == 1 ? std::move(image) : upright(image, orientation);
}

std::string encode_jpeg(const Image& image, int quality) {
  check(!image.empty(), "encode_jpeg: the image is empty");
  check(quality >= 1 && quality <= 100, "encode_jpeg: quality out of range; got {}, want 1 to 100",
        quality);
  Encoder encoder = {};
  install(encoder.frame, reinterpret_cast<j_common_ptr>(&encoder.info));
  jpeg_create_compress(&encoder.info);
  const bool ok = write_file(encoder, image, quality);
  jpeg_destroy_compress(&encoder.info);
  std::string file(reinterpret_cast<char*>(encoder.file), encoder.size);
  std::free(encoder.file);
  if (!ok) fail_run("encode_jpeg: {}", encoder.frame.message);
  return file;
}

}  // namespace booster
