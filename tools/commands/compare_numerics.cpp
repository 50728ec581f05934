#include "tools/commands/commands.h"
#include "tools/doctor/dump_compare.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace booster::cli {

namespace {

struct CompareNumerics {
  std::string a, b;       // files, or folders of files worker_*
  double loss_scale = 1;  // factor on b's gradients
  bool json = false, csv = false;
  bool all = false;  // text output: also rows without a finding
};

constexpr int differs_exit_code = 3;

int compare_numerics(const CompareNumerics& arguments) {
  using namespace numerics;
  const auto a = read_dump(arguments.a), b = read_dump(arguments.b);
  const Comparison result = compare_dumps(a, b, arguments.loss_scale);
  if (arguments.json)
    fmt::print("{}\n",
               result.to_json().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  else if (arguments.csv)
    fmt::print("{}", result.csv());
  else
    fmt::print("{}", result.text(arguments.all));
  return result.abnormal > 0 ? differs_exit_code : 0;
}

}  // namespace

Action compare_numerics_command(CLI::App& line) {
  const auto compared = std::make_shared<CompareNumerics>();
  line.add_option("A", compared->a, "file or folder: usually of the run in f32")->required();
  line.add_option("B", compared->b, "file or folder: of the run in 16 bits")->required();
  line.add_option("--loss-scale", compared->loss_scale, "of B's gradients");
  CLI::Option* as_json = line.add_flag("--json", compared->json, "one JSON object");
  line.add_flag("--csv", compared->csv, "a table for spreadsheets")->excludes(as_json);
  line.add_flag("--all", compared->all, "as text: also show rows without a finding");
  return [compared](const Words&) { return compare_numerics(*compared); };
}

}  // namespace booster::cli
