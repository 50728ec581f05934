#include "examples/vit_caltech101/report/confusion.h"

#include "examples/training/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace example {

using namespace booster;

namespace {

constexpr size_t most_named = 120;  // above this, class names next to the matrix are unreadable
constexpr double margin = 150, edge = 20;

double row_sum(const std::vector<double>& counts, size_t classes, size_t row) {
  const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(row * classes);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(classes), 0.0);
}

// White for 0 to dark blue for 1.
std::string colour(double share) {
  const auto mixed = [&](int dark) { return 255 - static_cast<int>(share * (255 - dark)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(8), mixed(48), mixed(107));
}

std::string cell_of(double x, double y, double side, double count, double share,
                    const std::string& truth, const std::string& predicted) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>"
      "{} taken for {}: {:.0f} ({:.0f} %)</title></rect>\n",
      x, y, side, side, colour(share), truth, predicted, count, 100 * share);
}

}  // namespace

std::string evaluation_record(const Validation::Result& result,
                              const std::vector<std::string>& classes, const Source& source) {
  const size_t n = classes.size();
  nlohmann::json record = {{"checkpoint", written_out(source.path().filename().string())},
                           {"weights", source.kind()},
                           {"images", result.images},
                           {"top1", number(result.top1)},
                           {"top5", number(result.top5)},
                           {"loss", number(result.loss)},
                           {"classes", nlohmann::json::array()},
                           {"confusion", nlohmann::json::array()}};
  for (size_t row = 0; row < n; ++row) {
    record["classes"].push_back(
        {{"name", classes[row]},
         {"images", static_cast<int64_t>(row_sum(result.confusion, n, row))},
         {"right", static_cast<int64_t>(result.confusion[row * n + row])}});
    nlohmann::json counts = nlohmann::json::array();
    for (size_t column = 0; column < n; ++column)
      counts.push_back(static_cast<int64_t>(result.confusion[row * n + column]));
    record["confusion"].push_back(std::move(counts));
  }
  return record.dump(1) + "\n";
}

std::string draw_confusion(const std::vector<double>& counts,
                           const std::vector<std::string>& classes) {
  const size_t n = classes.size();
  const double side = std::clamp(720.0 / static_cast<double>(n), 2.0, 36.0);
  const double size = side * static_cast<double>(n), whole = margin + size + edge;
  const double font = std::min(12.0, side);
  std::string svg = fmt::format(
      "<text x=\"{:.1f}\" y=\"14\" font-size=\"12\">predicted class (columns), true class "
      "(rows)</text>\n",
      edge);
  for (size_t row = 0; row < n; ++row) {
    const double y = margin + side * static_cast<double>(row);
    const double images = row_sum(counts, n, row);
    const std::string truth = report::markup_text(classes[row]);
    for (size_t column = 0; column < n; ++column) {
      const double count = counts[row * n + column];
      if (count > 0)
        svg += cell_of(margin + side * static_cast<double>(column), y, side, count, count / images,
                       truth, report::markup_text(classes[column]));
    }
    if (n > most_named) continue;
    const double middle = side / 2 + font / 3;
    svg += report::svg_text(margin - 4, y + middle, "end", truth);
    svg += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>\n",
                       y + middle, margin - 4, truth);
  }
  svg += fmt::format(
      "<rect x=\"{0:.1f}\" y=\"{0:.1f}\" width=\"{1:.1f}\" height=\"{1:.1f}\" "
      "fill=\"none\" stroke=\"#999\"/>\n",
      margin, size);
  return report::svg_file(whole, whole, font, "", svg);
}

}  // namespace example
