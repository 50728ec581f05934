#include "platform/files/file.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"
#include "tools/report/page/page.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace booster::cli {

namespace {

int report(const std::vector<std::string>& folders, const std::string& output) {
  std::vector<report::RunFolder> runs;
  for (const std::string& folder : folders) {
    runs.push_back(report::read_run(folder));
    const report::RunFolder& run = runs.back();
    const auto tell = [&](const std::string& text) {
      warn(terminal_text(fmt::format("warning: {}: {}", folder, text)));
    };
    if (!run.metrics.left_out.empty())
      tell("metrics.jsonl: left out " + run.metrics.describe_left_out());
    for (const std::string& note : run.notes) tell(note);
  }
  const std::filesystem::path file =
      output.empty() ? runs[0].path / "report.html" : std::filesystem::path(output);
  const std::string page = report::report_page(std::move(runs));
  write_file(file, page);
  fmt::print("{}: {} run{}, {:.0f} kB\n", terminal_text(file.string()), folders.size(),
             folders.size() == 1 ? "" : "s", static_cast<double>(page.size()) * 1e-3);
  return 0;
}

}  // namespace

Action report_command(CLI::App& line) {
  struct Values {
    Words folders;
    std::string output;
  };
  const auto values = std::make_shared<Values>();
  line.add_option("DIR", values->folders, "train.output_dir of a training")->required();
  line.add_option("--output", values->output, "the page (report.html in the first DIR)");
  return [values](const Words&) { return report(values->folders, values->output); };
}

}  // namespace booster::cli
