// The `booster` program: one subcommand per task.
#include "booster/cli/commands.h"
#include "booster/config.h"
#include "booster/run/run.h"
#include "booster/version.h"
#include "kernels/error.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <functional>

namespace {

using namespace booster;

struct CommandLine {
  CLI::App app{"Trains a model in the numbers you choose and on the machines you have."};
  std::string name, path;
  std::vector<std::string> libraries;
  cli::ListOps ops;
  cli::CompareNumerics compared;
  std::function<int()> action;

  CommandLine() {
    app.name("booster");
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("booster ") + version);
    // Only listed here: what follows these is taken byte for byte by their own parsers.
    app.add_subcommand("run", "start the ranks of a program (booster run --help)");
    app.add_subcommand("scaler", "what a loss scaler would do (booster scaler --help)");
    app.add_subcommand("explain", "in which dtype an op would run (booster explain --help)");
    add_list();
    auto* matrix = add("matrix", "which strategy works with which plugin",
                       [this] { return cli::matrix(libraries); });
    add_libraries(matrix);
    add_config();
    auto* inspect = add("inspect", "check and show a safetensors file or a checkpoint",
                        [this] { return cli::inspect(path); });
    inspect->add_option("PATH", path, "file or folder")->required();
    add("doctor", "what this machine offers, what is off and why", cli::doctor);
    add_compare();
  }

  CLI::App* add(const char* command, const char* summary, std::function<int()> run,
                CLI::App* parent = nullptr) {
    CLI::App* subcommand = (parent ? parent : &app)->add_subcommand(command, summary);
    subcommand->callback([this, run] { action = run; });
    return subcommand;
  }

  void add_list() {
    auto* list =
        add("list", "plugins and precision strategies, the options of one, or op lists",
            [this] { return name == "ops" ? cli::list_ops(ops) : cli::list(name, libraries); });
    list->add_option("NAME", name, "a plugin or a strategy; or ops: what --strategy does to ops");
    list->add_option("--strategy", ops.strategy, "with ops: whose lists");
    list->add_option("--level", ops.level, "with ops: of fp16_apex or fp16_paddle");
    list->add_option("--device", ops.device, "with ops: cuda (the default) or cpu");
    list->add_flag("--json", ops.json, "with ops: a JSON object per line");
    add_libraries(list);
  }

  void add_libraries(CLI::App* command) {
    command->add_option("--library", libraries, "a shared library with some of your own")
        ->allow_extra_args(false);
  }

  void add_compare() {
    auto* compare = add("compare-numerics", "the tensor checker's dumps of two runs",
                        [this] { return cli::compare_numerics(compared); });
    compare->add_option("A", compared.a, "file or folder: usually of the run in f32")->required();
    compare->add_option("B", compared.b, "file or folder: of the run in 16 bits")->required();
    compare->add_option("--loss-scale", compared.loss_scale, "of B's gradients");
    compare->add_flag("--json", compared.json, "one JSON object");
    compare->add_flag("--csv", compared.csv, "a table for spreadsheets");
    compare->add_flag("--all", compared.all, "as text: also rows in which nothing is wrong");
  }

  void add_config() {
    CLI::App* config =
        app.add_subcommand("config", "check a config, or print the JSON schema of configs");
    config->require_subcommand(1);
    auto* check = add(
        "check", "check a config file", [this] { return cli::check_config(path); }, config);
    check->add_option("FILE", path, "JSON config")->required();
    add_libraries(add(
        "schema", "print the JSON schema", [this] { return cli::print_config_schema(libraries); },
        config));
  }
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names.push_back(subcommand->get_name());
  return names;
}

int run(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "run") return run_tool({argv + 2, argv + argc});
  if (first == "scaler") return cli::scaler({argv + 2, argv + argc});
  if (first == "explain") return cli::explain_op({argv + 2, argv + argc});
  CommandLine line;
  if (!first.empty() && first[0] != '-') {
    const auto names = command_names(line.app);
    const bool known = std::find(names.begin(), names.end(), first) != names.end();
    check(known, "booster: unknown command; got {}{}", first, legal_names(first, names));
  }
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error) == 0 ? 0 : 2;
  }
  return line.action();
}

}  // namespace

int main(int argc, char** argv) {
  booster::report_uncaught_errors();
  return run(argc, argv);
}
