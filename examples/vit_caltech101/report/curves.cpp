#include "examples/vit_caltech101/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace example {
namespace {

struct Point {
  double x, y;
};

struct Curve {
  std::string title;
  std::string colour;
  std::vector<Point> points;
  bool dots = false;  // few points: show each
};

constexpr double width = 760, panel_height = 190, left = 70, right = 20, top = 34, bottom = 28;

std::vector<Point> points_of(const std::vector<nlohmann::json>& metrics, const char* key) {
  std::vector<Point> points;
  for (const auto& line : metrics) {
    if (!line.contains(key) || !line[key].is_number() || !line.contains("step")) continue;
    points.push_back({line["step"].get<double>(), line[key].get<double>()});
  }
  return points;
}

struct Range {
  double low, high;
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

Range range_of(const std::vector<Point>& points, double Point::*axis) {
  if (points.empty()) return {0, 1};
  Range range{points[0].*axis, points[0].*axis};
  for (const Point& point : points) {
    range.low = std::min(range.low, point.*axis);
    range.high = std::max(range.high, point.*axis);
  }
  return range;
}

std::string text(double x, double y, const char* anchor, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     content);
}

// One panel: frame, three grid lines with numbers, the curve.
std::string panel(const Curve& curve, double y0, Range steps) {
  const Range values = range_of(curve.points, &Point::y);
  const double plot_width = width - left - right, plot_height = panel_height - top - bottom;
  auto px = [&](double x) { return left + steps.share(x) * plot_width; };
  auto py = [&](double y) { return y0 + top + (1 - values.share(y)) * plot_height; };
  std::string svg =
      fmt::format("<g font-weight=\"bold\">{}</g>", text(left, y0 + 20, "start", curve.title));
  for (int i = 0; i <= 2; ++i) {
    const double value = values.low + (values.high - values.low) * i / 2, y = py(value);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", left,
        width - right, y, y);
    svg += text(left - 6, y + 4, "end", fmt::format("{:.3g}", value));
  }
  svg += text(left, y0 + panel_height - 8, "start", fmt::format("step {:.0f}", steps.low));
  svg += text(width - right, y0 + panel_height - 8, "end", fmt::format("step {:.0f}", steps.high));
  std::string path;
  for (const Point& point : curve.points)
    path += fmt::format("{}{:.1f},{:.1f} ", path.empty() ? "M" : "L", px(point.x), py(point.y));
  svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", path,
                     curve.colour);
  for (const Point& point : curve.points)
    if (curve.dots)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", px(point.x),
                         py(point.y), curve.colour);
  return svg;
}

}  // namespace

std::string draw_curves(const std::vector<nlohmann::json>& metrics) {
  const std::vector<Curve> curves = {
      {"training loss", "#c0392b", points_of(metrics, "loss")},
      {"learning rate", "#7f8c8d", points_of(metrics, "lr")},
      {"validation accuracy (top 1)", "#2980b9", points_of(metrics, "val_top1"), true},
  };
  std::vector<Point> all;
  for (const Curve& curve : curves) all.insert(all.end(), curve.points.begin(), curve.points.end());
  const Range steps = range_of(all, &Point::x);
  const double height = panel_height * static_cast<double>(curves.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      width, height);
  for (size_t i = 0; i < curves.size(); ++i)
    svg += panel(curves[i], panel_height * static_cast<double>(i), steps);
  return svg + "</svg>\n";
}

}  // namespace example
