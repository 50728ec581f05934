// Line charts as SVG: in a page, whose script shows the values under the pointer, or in separate
// files. Thread-safe.
#pragma once

#include <string>
#include <vector>

namespace booster::report {

struct ChartPoint {
  double x, y;
};

struct ChartLine {
  std::string name;  // any text
  int colour = 0;    // index into chart_colours, modulo their number
  bool dashed = false;
  bool dots = false;               // marks each point, for lines with few points
  std::vector<ChartPoint> points;  // non-finite points are left out
};

struct Chart {
  std::string title;
  std::string note = {};  // next to the title, smaller
  std::vector<ChartLine> lines;
  bool powers_of_two = false;  // logarithmic value axis; values must be positive
};

inline constexpr int chart_colours = 8;
inline constexpr double chart_width = 460, chart_height = 250;

// Returns an <svg> element whose classes page_style() colours. For a line of more than 800 points
// it shows the smallest and largest value in each part of the axis.
std::string chart_element(const Chart& chart);
// Returns charts one below the other, as a file.
std::string chart_file(const std::vector<Chart>& charts);

}  // namespace booster::report
