// Line charts as SVG: in a page, where a script shows the values under the pointer, and in files of
// their own. Thread-safe.
#pragma once

#include <string>
#include <vector>

namespace booster::report {

struct ChartPoint {
  double x, y;
};

struct ChartLine {
  std::string name;  // anything
  int colour = 0;    // one of chart_colours; larger numbers begin again
  bool dashed = false;
  bool dots = false;               // few points: each is shown
  std::vector<ChartPoint> points;  // those that are not finite are left out
};

struct Chart {
  std::string title;
  std::string note = {};  // beside the title, smaller
  std::vector<ChartLine> lines;
  bool powers_of_two = false;  // a logarithmic axis of values, which are positive
};

inline constexpr int chart_colours = 8;
inline constexpr double chart_width = 460, chart_height = 250;

// An <svg> element whose classes page_style() colours. A line of more than 800 points shows the
// smallest and the largest value of each part of the axis.
std::string chart_element(const Chart& chart);
// Charts one below the other, as a file.
std::string chart_file(const std::vector<Chart>& charts);

}  // namespace booster::report
