#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"

#include "platform/warn.h"

#include <fmt/format.h>

namespace booster::report {

std::string markup_text(std::string_view text) {
  std::string escaped;
  for (const char c : terminal_text(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

std::string markup_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows) {
  std::string table = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const std::string& cell : head) table += "<th>" + cell + "</th>";
  table += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    table += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      table += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    table += "</tr>\n";
  }
  return table + "</tbody></table></div>\n";
}

std::string svg_file(double width, double height, double font_size, std::string_view style,
                     std::string_view body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"{:.1f}\">\n{}"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      width, height, font_size, style.empty() ? "" : fmt::format("<style>{}</style>\n", style),
      body);
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     content);
}

}  // namespace booster::report
