#include "booster/report/chart.h"

#include "booster/report/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace booster::report {

namespace {

constexpr double left = 58, right = 14, top = 34, bottom = 28;
constexpr size_t most_points = 800;
constexpr double smallest = std::numeric_limits<double>::denorm_min();  // difference of two doubles

// The colours and strokes of a page, for separate files.
constexpr const char* file_style =
    ".grid{stroke:#ddd}.line{fill:none;stroke-width:1.6}.dashed{stroke-dasharray:5 4}"
    ".title{font-weight:bold}.note{fill:#777}"
    ".c0{stroke:#2563c9}.c1{stroke:#d9541e}.c2{stroke:#12805c}.c3{stroke:#a33ea1}"
    ".c4{stroke:#b07d00}.c5{stroke:#0b7fa5}.c6{stroke:#c2255c}.c7{stroke:#5c6670}"
    "circle.dot{fill:white;stroke-width:1.6}";

// Widths are long double. The width of the full range overflows double, and ticks in the smallest
// range would underflow it.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  long double width() const { return static_cast<long double>(high) - low; }
  double share(double value) const {
    return high > low ? static_cast<double>((static_cast<long double>(value) - low) / width())
                      : 0.5;
  }
};

// Returns 1, 2 or 5 times a power of ten, so that about `count` ticks span the range.
long double tick_distance(const Range& range, int count) {
  const long double wanted = range.width() / count;
  const long double power = std::pow(10.0L, std::floor(std::log10(wanted)));
  for (const long double factor : {1.0L, 2.0L, 5.0L})
    if (factor * power >= wanted * 0.999L) return factor * power;
  return 10 * power;
}

std::vector<double> ticks(const Range& range, int count, double least) {
  // If values hardly differ, a tick distance may vanish in rounding.
  if (!(range.width() > 1e-9L * std::max(std::abs(range.low), std::abs(range.high))))
    return {range.low};
  const long double distance = std::max<long double>(tick_distance(range, count), least);
  const long double last = std::floor(range.high / distance + 1e-9L);
  std::vector<double> values;
  for (long double i = std::ceil(range.low / distance - 1e-9L); i <= last; ++i)
    values.push_back(static_cast<double>(i * distance));
  return values.empty() ? std::vector{range.low} : values;
}

// Drops points that are not finite, and thins the rest to keep pages fast.
std::vector<ChartPoint> drawn_points(const ChartLine& line, bool powers) {
  std::vector<ChartPoint> points;
  for (const ChartPoint& point : line.points)
    if (std::isfinite(point.x) && std::isfinite(point.y) && (!powers || point.y > 0))
      points.push_back(point);
  std::ranges::stable_sort(points, {}, &ChartPoint::x);
  if (points.size() <= most_points) return points;
  std::vector<ChartPoint> kept;
  const size_t parts = most_points / 2;
  for (size_t i = 0; i < parts; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * i / parts);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (i + 1) / parts);
    auto [low, high] = std::minmax_element(
        begin, end, [](const ChartPoint& a, const ChartPoint& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  return kept;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    for (const ChartLine& line : chart.lines) {
      points_.push_back(drawn_points(line, chart.powers_of_two));
      for (const ChartPoint& point : points_.back()) {
        steps_.include(point.x);
        values_.include(height_of(point.y));
      }
    }
  }

  std::string body() const {
    std::string svg = fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"18\">{}", left,
                                  markup_text(chart_.title));
    if (!chart_.note.empty())
      svg += fmt::format(" <tspan class=\"note\">{}</tspan>", markup_text(chart_.note));
    svg += "</text>\n";
    if (values_.empty())
      return svg + svg_text(chart_width / 2, chart_height / 2, "middle", "no values");
    svg += axes();
    for (size_t i = 0; i < points_.size(); ++i) svg += curve(chart_.lines[i], points_[i]);
    return svg;
  }

 private:
  double height_of(double y) const { return chart_.powers_of_two ? std::log2(y) : y; }
  double px(double x) const { return left + steps_.share(x) * (chart_width - left - right); }
  double py(double height) const {
    return top + (1 - values_.share(height)) * (chart_height - top - bottom);
  }

  std::string axes() const {
    std::string svg;
    for (const double height : ticks(values_, 5, chart_.powers_of_two ? 1 : smallest)) {
      svg += fmt::format("<path class=\"grid\" d=\"M{:.1f},{:.1f}H{:.1f}\"/>\n", left, py(height),
                         chart_width - right);
      const bool near_zero = std::abs(height) < 1e-9L * values_.width();
      svg += svg_text(left - 6, py(height) + 4, "end",
                      chart_.powers_of_two ? fmt::format("2^{:.0f}", height)
                                           : fmt::format("{:.4g}", near_zero ? 0 : height));
    }
    for (const double step : ticks(steps_, 4, 1))
      svg += svg_text(px(step), chart_height - 10, "middle", fmt::format("{:.7g}", step));
    return svg;
  }

  // Stores the values next to the curve for the page's script: x, y and their screen position.
  std::string curve(const ChartLine& line, const std::vector<ChartPoint>& points) const {
    if (points.empty()) return "";
    const int colour = line.colour % chart_colours;
    std::string path, values, dots;
    for (const ChartPoint& point : points) {
      const double x = px(point.x), y = py(height_of(point.y));
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " ", x, y);
      values += fmt::format("{}{:.7g} {:.5g} {:.1f} {:.1f}", values.empty() ? "" : " ", point.x,
                            point.y, x, y);
      if (line.dots || points.size() == 1)
        dots += fmt::format("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>\n",
                            colour, x, y);
    }
    return fmt::format(
               "<path class=\"line c{}{}\" d=\"{}\" data-name=\"{}\" data-points=\"{}\"/>\n",
               colour, line.dashed ? " dashed" : "", path, markup_text(line.name), values) +
           dots;
  }

  const Chart& chart_;
  std::vector<std::vector<ChartPoint>> points_;
  Range steps_, values_;
};

}  // namespace

std::string chart_element(const Chart& chart) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n{}</svg>\n",
      chart_width, chart_height, markup_text(chart.title), Drawing(chart).body());
}

std::string chart_file(const std::vector<Chart>& charts) {
  std::string body;
  for (size_t i = 0; i < charts.size(); ++i)
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n",
                        chart_height * static_cast<double>(i), Drawing(charts[i]).body());
  return svg_file(chart_width, chart_height * static_cast<double>(charts.size()), 12, file_style,
                  body);
}

}  // namespace booster::report
