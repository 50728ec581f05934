// The parts of a report's page, each as HTML; "" where the runs have nothing to show in it. Runs
// keep their place: the first has the first colour.
#pragma once

#include "booster/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

using Runs = std::vector<RunFolder>;

// A table with a row for each run, and what of its files could not be used.
std::string overview_section(const Runs& runs);
std::string curves_section(const Runs& runs);
// Settings in which runs differ, and all settings of each.
std::string config_section(const Runs& runs);
std::string time_section(const Runs& runs);
std::string precision_section(const Runs& runs);
std::string images_section(const Runs& runs);

// A run's name with its colour; markup.
std::string run_label(const Runs& runs, size_t i);
// "<section id=...><h2>title</h2>body</section>", or "" without a body.
std::string section(const char* id, const char* title, const std::string& body);

}  // namespace booster::report
