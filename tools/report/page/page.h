// A self-contained page about one or more runs: one HTML file that loads nothing else.
#pragma once

#include "tools/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

// Returns the page as HTML; shows the paths of runs with the same name. Its Content-Security-Policy
// lets a browser run and load only the page's own script and style, whatever the runs' files
// contain.
std::string report_page(std::vector<RunFolder> runs);

// CSS and JavaScript of the page; neither needs escaping.
extern const char* const page_style;
extern const char* const page_script;

}  // namespace booster::report
