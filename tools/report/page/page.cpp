#include "tools/report/page/page.h"

#include "booster/report/base64.h"
#include "booster/report/run_files.h"
#include "platform/files/sha256.h"
#include "platform/program.h"
#include "tools/report/page/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace booster::report {

namespace {

// Returns the hash with which a Content-Security-Policy allows a script.
std::string policy_hash(std::string_view text) {
  const std::string hex = sha256(std::as_bytes(std::span(text)));
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return fmt::format("'sha256-{}'", base64(bytes));
}

void tell_apart(std::vector<RunFolder>& runs) {
  std::vector<std::string> names;
  for (const RunFolder& run : runs) names.push_back(run.name);
  for (RunFolder& run : runs)
    if (std::ranges::count(names, run.name) > 1) run.name = run.path.string();
}

}  // namespace

std::string report_page(std::vector<RunFolder> runs) {
  tell_apart(runs);
  std::string title;
  for (const RunFolder& run : runs) title += (title.empty() ? "" : ", ") + run.name;
  const std::string sections = overview_section(runs) + curves_section(runs) +
                               config_section(runs) + time_section(runs) + precision_section(runs) +
                               images_section(runs);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src {}; script-src {}\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<header><h1>{}</h1></header>\n<main>\n{}</main>\n"
      "<footer>booster {}</footer>\n<script>{}</script>\n</body>\n</html>\n",
      policy_hash(page_style), policy_hash(page_script), markup_text(title), page_style,
      runs.size() == 1 ? markup_text(runs[0].name) : fmt::format("{} runs", runs.size()), sections,
      version, page_script);
}

}  // namespace booster::report
