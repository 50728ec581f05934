// The parts of a report's page, each as HTML, or "" if the runs have nothing to show. A run's
// position determines its colour: the first run has the first colour.
#pragma once

#include "tools/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

using Runs = std::vector<RunFolder>;

// Returns a table with a row for each run, and a list of unusable parts of its files.
std::string overview_section(const Runs& runs);
std::string curves_section(const Runs& runs);
// Settings that differ between runs, and all settings of each run.
std::string config_section(const Runs& runs);
std::string time_section(const Runs& runs);
std::string precision_section(const Runs& runs);
std::string images_section(const Runs& runs);

// Returns a run's name with its colour, as markup.
std::string run_label(const Runs& runs, size_t i);
// Returns "<section id=...><h2>title</h2>body</section>", or "" if `body` is empty.
std::string section(const char* id, const char* title, const std::string& body);

}  // namespace booster::report
