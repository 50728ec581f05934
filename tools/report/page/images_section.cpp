#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::report {

namespace {

using Json = nlohmann::json;

constexpr size_t most_images = 32, longest_thumbnail = 256 << 10;

std::string text_of(const Json& image, const char* key) {
  const Json& value = part_of(image, {key});
  return value.is_string() ? markup_text(value.get<std::string>()) : "";
}

std::string number_of(const Json& image, const char* key, double factor, const char* format) {
  const Json& value = part_of(image, {key});
  return value.is_number() ? fmt::format(fmt::runtime(format), factor * value.get<double>()) : "";
}

// Accepts base64 letters only, so that no content of the file can leave the attribute.
std::string thumbnail(const Json& image) {
  const Json& value = part_of(image, {"jpeg"});
  if (!value.is_string()) return "";
  const std::string& text = value.get_ref<const std::string&>();
  const bool fits = !text.empty() && text.size() <= longest_thumbnail &&
                    std::ranges::all_of(text, [](unsigned char c) {
                      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                             (c >= 'a' && c <= 'z') || c == '+' || c == '/' || c == '=';
                    });
  return fits ? text : "";
}

std::string figure(const Json& image) {
  const std::string jpeg = thumbnail(image);
  return fmt::format(
      "<figure class=\"card\">{}<figcaption><b>{}</b> predicted as <b>{}</b> "
      "<small>({})</small><br><small>loss {}<br>{}</small></figcaption></figure>\n",
      jpeg.empty() ? "<div class=\"none\">no picture</div>"
                   : fmt::format("<img alt=\"\" src=\"data:image/jpeg;base64,{}\">", jpeg),
      text_of(image, "true"), text_of(image, "predicted"),
      number_of(image, "probability", 100, "{:.1f} %"), number_of(image, "loss", 1, "{:.3f}"),
      text_of(image, "file"));
}

}  // namespace

std::string images_section(const Runs& runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Json& images = runs[i].worst_images;
    if (images.empty()) continue;
    body += "<h3>" + run_label(runs, i) + "</h3>\n<div class=\"images\">\n";
    for (size_t at = 0; at < std::min(images.size(), most_images); ++at) body += figure(images[at]);
    body += "</div>\n";
  }
  return section("images", "Images with the largest loss", body);
}

}  // namespace booster::report
