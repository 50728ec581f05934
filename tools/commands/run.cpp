#include "tools/run/run.h"

#include "tools/commands/commands.h"
#include "tools/run/options.h"

#include <memory>

namespace booster::cli {

Action run_command(CLI::App& line) {
  const auto options = std::make_shared<RunOptions>();
  declare_run_options(line, *options);
  return [options, &line](const Words&) { return run_declared(line, *options); };
}

}  // namespace booster::cli
