// Text as HTML and SVG, whatever it holds: names of files and classes are anybody's. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace booster::report {

// The text as it is read in an element or in an attribute between quotes: nothing in it is markup,
// and what would steer a terminal, or is not UTF-8, is written out
// (platform/terminal_text.h).
std::string markup_text(std::string_view text);

// A table; cells are markup. Rows of fewer cells than `head` end early.
std::string markup_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

// A file of its own, with a white page behind `body`; `style` is CSS.
std::string svg_file(double width, double height, double font_size, std::string_view style,
                     std::string_view body);
// `anchor` (start, middle, end) is what of the text stands at x; `content` is markup.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content);

}  // namespace booster::report
