#include "booster/report/run_files.h"

#include "booster/report/base64.h"
#include "core/data/datasets/datasets.h"
#include "core/data/images/resize.h"
#include "platform/files/file.h"
#include "platform/warn.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace booster::report {

namespace {

using Json = nlohmann::json;

constexpr size_t small_file = 16 << 10;
constexpr int thumbnail_side = 160, thumbnail_quality = 80;

int scaled(int side, int longest) {
  return std::max(1, static_cast<int>(std::lround(double{thumbnail_side} * side / longest)));
}

Json thumbnail(const ImageDataset& images, int64_t index) {
  try {
    const auto file = images.file_bytes(index);
    const Image image = decode_image(file, images.path(index));  // throws if undecodable
    const bool is_jpeg = file[0] == 0xFF;
    if (is_jpeg && file.size() <= small_file) return base64(std::string(file.begin(), file.end()));
    const int longest = std::max({image.width(), image.height(), thumbnail_side});
    return base64(
        encode_jpeg(resize(image, scaled(image.width(), longest), scaled(image.height(), longest)),
                    thumbnail_quality));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return nullptr;
  }
}

// Returns null for a non-finite value, which JSON cannot express.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

void write_worst_images(const std::filesystem::path& file, int64_t step,
                        const std::vector<WorstImage>& worst, const ImageDataset& images) {
  Json all = Json::array();
  const auto& classes = images.classes();
  for (const WorstImage& one : worst) {
    const auto predicted = static_cast<size_t>(one.predicted);
    const std::string& truth = classes.at(static_cast<size_t>(images.label(one.index)));
    all.push_back({{"file", terminal_text(images.path(one.index))},
                   {"true", terminal_text(truth)},
                   {"predicted", predicted < classes.size() ? terminal_text(classes[predicted])
                                                            : "class " + std::to_string(predicted)},
                   {"probability", number(one.probability)},
                   {"loss", number(one.loss)},
                   {"jpeg", thumbnail(images, one.index)}});
  }
  write_file(file, Json{{"step", step}, {"images", all}}.dump(1) + "\n");
}

}  // namespace booster::report
