#include "tools/run/options.h"

#include "platform/error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <functional>

namespace booster {

namespace {

constexpr int most_ranks = 1 << 20;

using Setter = std::function<void(RunOptions&, const std::string& value)>;

// An option with a value. Its name may be written with '_' or '-'.
struct RunOption {
  const char* name;
  const char* value;  // name of the value in the help
  const char* help;
  Setter set;
};

struct RunSwitch {
  const char* name;
  const char* help;
  bool RunOptions::*member;
};

// Names the program and its arguments, which are no options of the tool.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] PROGRAM [ARGS...]\n";
  }
};

int number(const char* name, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  check(whole && value >= low && value <= high,
        "--{0}: out of range; got '{3}', want a number from {1} to {2}", name, low, high, text);
  return value;
}

Setter number_into(int RunOptions::*member, const char* name, int low, int high) {
  return
      [=](RunOptions& o, const std::string& value) { o.*member = number(name, value, low, high); };
}

Setter text_into(std::string RunOptions::*member, const char* name) {
  return [=](RunOptions& o, const std::string& value) {
    check(!value.empty(), "--{}: empty value; want some text", name);
    o.*member = value;
  };
}

void add_variable(RunOptions& options, const std::string& value) {
  const std::string name = value.substr(0, value.find('='));
  const bool legal = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
                     std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  check(legal,
        "--env: not a variable; got '{}', want NAME or NAME=VALUE with a name of letters, digits "
        "and _",
        value);
  options.env.push_back(value);
}

const std::vector<RunOption>& valued_options() {
  static const std::vector<RunOption> all = {
      {"nproc_per_node", "N", "ranks on each machine (default: the hostfile's slots, or 1)",
       number_into(&RunOptions::nproc_per_node, "nproc_per_node", 1, 4096)},
      {"nnodes", "N", "number of machines, if you start the tool on each (1)",
       number_into(&RunOptions::nnodes, "nnodes", 1, 65536)},
      {"node_rank", "I", "this machine's number among them (0)",
       number_into(&RunOptions::node_rank, "node_rank", 0, 65535)},
      {"master_addr", "HOST", "MASTER_ADDR of the ranks (default: 127.0.0.1, or the first host)",
       text_into(&RunOptions::master_addr, "master_addr")},
      {"master_port", "PORT",
       "MASTER_PORT of the ranks (default: a free port; 29500 for several machines)",
       number_into(&RunOptions::master_port, "master_port", 1, 65535)},
      {"hostfile", "FILE", "file of machines to reach by ssh: lines NAME [slots=N] [port=N]",
       text_into(&RunOptions::hostfile, "hostfile")},
      {"host", "A,B", "machines to reach by ssh", text_into(&RunOptions::host, "host")},
      {"include", "A,B", "use only these machines of the hostfile",
       text_into(&RunOptions::include, "include")},
      {"exclude", "A,B", "skip these machines of the hostfile",
       text_into(&RunOptions::exclude, "exclude")},
      {"ssh-port", "PORT", "port for ssh (default: ssh's own setting)",
       number_into(&RunOptions::ssh_port, "ssh-port", 1, 65535)},
      {"env", "NAME[=VALUE]", "pass this variable to the ranks on all machines; may be repeated",
       add_variable},
      {"log_dir", "DIR", "also write each rank's output to DIR/rank-N.log, and flight records",
       text_into(&RunOptions::log_dir, "log_dir")},
      {"max_restarts", "N", "start all ranks again up to N times when one fails (0)",
       number_into(&RunOptions::max_restarts, "max_restarts", 0, 1000)},
      {"grace", "SECONDS",
       "seconds from a signal (Ctrl-C, SIGTERM) to SIGKILL for ranks that still run (30)",
       number_into(&RunOptions::grace, "grace", 0, 86400)},
      {"first_rank", "I",
       "first rank on this machine (set if machines have different numbers of ranks)",
       number_into(&RunOptions::first_rank, "first_rank", 0, most_ranks - 1)},
      {"world_size", "N", "ranks on all machines together (set in the same case)",
       number_into(&RunOptions::world_size, "world_size", 1, most_ranks)},
      {"restart_count", "N", "number of earlier starts of the ranks (set for remote machines)",
       number_into(&RunOptions::restart_count, "restart_count", 0, 1000)},
  };
  return all;
}

const std::vector<RunSwitch>& switches() {
  static const std::vector<RunSwitch> all = {
      {"dry-run", "print the commands without starting them", &RunOptions::dry_run},
      {"stop_at_eof", "stop the ranks when standard input ends", &RunOptions::stop_at_eof},
      {"env_at_stdin", "read variables from standard input first (set for remote machines)",
       &RunOptions::env_at_stdin},
  };
  return all;
}

std::string with_other_dashes(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : c == '_' ? '-' : c;
  return name;
}

void declare(CLI::App& app, const RunOption& option, const std::string& name, RunOptions& result) {
  CLI::Option* declared =
      app.add_option("--" + name, CLI::callback_t([&option, &result](const CLI::results_t& words) {
                       option.set(result, words.back());
                       return true;
                     }),
                     option.help);
  declared->type_name(option.value)->trigger_on_parse();
  if (name != option.name) declared->group("");  // not in the help
}

void check_together(const RunOptions& o) {
  check(o.node_rank < o.nnodes, "--node_rank: out of range; got {1}, want less than --nnodes = {0}",
        o.nnodes, o.node_rank);
  check(o.hostfile.empty() || o.host.empty(), "--host: got --hostfile too; want one of them");
  check(o.include.empty() || o.exclude.empty(), "--include: got --exclude too; want one of them");
  check((o.include.empty() && o.exclude.empty()) || !o.hostfile.empty(),
        "--include, --exclude: no --hostfile; want one");
  const bool by_ssh = !o.hostfile.empty() || !o.host.empty();
  check(!by_ssh || o.nnodes == 1, "--nnodes: got a list of hosts too; want one of them");
  check(by_ssh || o.nnodes == 1 || !o.master_addr.empty(),
        "--master_addr: not set; want the address of node 0, the same on all machines");
  const int here = std::max(1, o.nproc_per_node);
  check(o.world_size == 0 || o.first_rank + here <= o.world_size,
        "--first_rank: too large; got {3}, want at most {0} for --nproc_per_node = {1} of "
        "--world_size = {2}",
        o.world_size - here, here, o.world_size, o.first_rank);
}

}  // namespace

void declare_run_options(CLI::App& app, RunOptions& result) {
  for (const RunOption& option : valued_options()) {
    declare(app, option, option.name, result);
    if (const std::string other = with_other_dashes(option.name); other != option.name)
      declare(app, option, other, result);
  }
  for (const RunSwitch& each : switches()) {
    app.add_flag(std::string("--") + each.name, result.*each.member, each.help)
        ->disable_flag_override();
    const std::string other = with_other_dashes(each.name);
    if (other == each.name) continue;
    app.add_flag("--" + other, result.*each.member)->disable_flag_override()->group("");
  }
  app.prefix_command();
  app.formatter(std::make_shared<RunFormatter>());
}

void finish_run_options(const CLI::App& app, RunOptions& result) {
  result.command = app.remaining();
  if (!result.command.empty() && result.command[0] == "--")
    result.command.erase(result.command.begin());
  check(!result.command.empty() && !result.command[0].empty(),
        "run: no program given; want booster run [options] PROGRAM [ARGS...]");
  check_together(result);
}

}  // namespace booster
