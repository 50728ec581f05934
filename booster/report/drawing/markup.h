// Safe text in HTML and SVG: names of files and classes are untrusted. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace booster::report {

// Returns the text escaped for an element or a quoted attribute, without markup. Terminal control
// characters and invalid UTF-8 are written out (platform/warn.h).
std::string markup_text(std::string_view text);

// Returns a table; cells are markup. Rows with fewer cells than `head` end early.
std::string markup_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

// Returns an SVG file with a white page under `body`; `style` is CSS.
std::string svg_file(double width, double height, double font_size, std::string_view style,
                     std::string_view body);
// `anchor` (start, middle, end) is the point of the text at x; `content` is markup.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content);

}  // namespace booster::report
