// A page about one or more runs that stands alone: one HTML file, nothing loaded from elsewhere.
#pragma once

#include "booster/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

// The page as HTML; runs of one name are told apart by their paths. Its policy (Content-Security-
// Policy) lets a browser run and load nothing but the page's own script and style, whatever the
// runs' files hold.
std::string report_page(std::vector<RunFolder> runs);

// CSS and JavaScript of the page; neither has to be escaped.
extern const char* const page_style;
extern const char* const page_script;

}  // namespace booster::report
