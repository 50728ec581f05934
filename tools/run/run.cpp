#include "tools/run/run.h"

#include "parallel/rendezvous/secret.h"
#include "platform/program.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/warn.h"
#include "tools/run/hosts.h"
#include "tools/run/options.h"
#include "tools/run/program.h"
#include "tools/run/supervisor.h"
#include "tools/run/tool_circle.h"

#include <CLI/CLI.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace booster {

namespace {

namespace fs = std::filesystem;

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Returns a port that no process on this machine is listening on.
int free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = bind(file, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(file);
  if (!found) fail_run("run: no free port on 127.0.0.1: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

using Environment = std::map<std::string, std::string>;

Environment environment_of(const RunOptions& options, int local_rank) {
  const bool unequal = options.world_size > 0;
  const int first_rank = unequal ? options.first_rank : options.node_rank * options.nproc_per_node;
  Environment variables = {
      {"RANK", std::to_string(first_rank + local_rank)},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"WORLD_SIZE",
       std::to_string(unequal ? options.world_size : options.nnodes * options.nproc_per_node)},
      {"LOCAL_WORLD_SIZE", std::to_string(options.nproc_per_node)},
      {"MASTER_ADDR", options.master_addr.empty() ? "127.0.0.1" : options.master_addr},
      {"MASTER_PORT", std::to_string(options.master_port)},
  };
  if (!options.log_dir.empty() && !environment::is_set("BOOSTER_FLIGHT_RECORD"))
    variables["BOOSTER_FLIGHT_RECORD"] = options.log_dir;
  if (!environment::is_set("OMP_NUM_THREADS"))
    variables["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores() / options.nproc_per_node));
  for (const std::string& setting : options.env) {
    const auto equals = setting.find('=');
    if (equals != std::string::npos)
      variables[setting.substr(0, equals)] = setting.substr(equals + 1);
    else
      check(environment::is_set(setting), "--env: the variable {} is not set", setting);
  }
  return variables;
}

std::string log_path(const RunOptions& options, const std::string& name) {
  return options.log_dir.empty() ? "" : fmt::format("{}/{}.log", options.log_dir, name);
}

std::vector<Launch> local_launches(const RunOptions& options) {
  const std::string path = find_program(options.command[0]);
  const bool alone = options.nproc_per_node == 1 && options.nnodes == 1;
  std::vector<Launch> launches;
  for (int local_rank = 0; local_rank < options.nproc_per_node; ++local_rank) {
    Launch launch;
    launch.environment = environment_of(options, local_rank);
    const std::string rank = launch.environment["RANK"];
    launch.label = "rank " + rank;
    launch.prefix = alone ? "" : "[" + rank + "] ";
    launch.log_path = log_path(options, "rank-" + rank);
    launch.path = path;
    launch.arguments = options.command;
    launch.inherits_terminal = alone && options.log_dir.empty();
    launches.push_back(std::move(launch));
  }
  return launches;
}

// Returns all variables of ranks on other machines, the secret among them.
std::vector<std::string> variables_for(const RunOptions& options) {
  const bool is_given = environment::is_set("BOOSTER_SECRET");
  const std::string secret = is_given ? shared_secret() : hexadecimal(random_bytes(32));
  std::vector<std::string> variables = forwarded_variables(options);
  variables.push_back("BOOSTER_SECRET=" + secret);
  return variables;
}

// The form in which tools hand variables on by standard input: the bytes that follow the first line
// are its number, NAME=VALUE and a NUL for each. Other users cannot read it, as they can read
// command lines.
std::string variables_as_input(const std::vector<std::string>& variables) {
  constexpr size_t most_bytes = 60'000;  // a pipe holds them until they are read
  std::string text;
  for (const std::string& variable : variables) text += variable + '\0';
  check(text.size() <= most_bytes,
        "--env: the variables for other machines are too long; got {} bytes, want at most {}",
        text.size(), most_bytes);
  return fmt::format("{}\n{}", text.size(), text);
}

std::string read_input(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = read(STDIN_FILENO, text.data() + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_run("run: standard input ends before the variables do");
    done += static_cast<size_t>(n);
  }
  return text;
}

void take_variables() {
  size_t bytes = 0;
  for (std::string digit; (digit = read_input(1)) != "\n";) {
    check(std::isdigit(static_cast<unsigned char>(digit[0])) && bytes < (1 << 20),
          "--env_at_stdin: standard input does not begin with variables; want it only as the run "
          "tool sets it");
    bytes = 10 * bytes + static_cast<size_t>(digit[0] - '0');
  }
  std::istringstream variables(read_input(bytes));
  for (std::string variable; std::getline(variables, variable, '\0');) {
    const size_t equals = variable.find('=');
    if (equals != std::string::npos && equals > 0)
      setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  shared_secret();
}

// The secret of --env counts for the tools too, and takes its own way to other machines.
void take_secret_option(RunOptions& options) {
  constexpr std::string_view name = "BOOSTER_SECRET";
  for (const std::string& variable : options.env)
    if (variable.starts_with(std::string(name) + "="))
      setenv(name.data(), variable.c_str() + name.size() + 1, 1);
  const bool is_set = environment::is_set(name.data());
  if (is_set)
    std::erase_if(options.env, [&](const std::string& variable) {
      return variable.substr(0, variable.find('=')) == name;
    });
}

// Starts one ssh per machine; the launcher there prefixes, logs and supervises its own ranks. Each
// attempt has its own secret.
std::vector<Launch> remote_launches(const RunOptions& options, const std::vector<Host>& hosts) {
  const std::string input = variables_as_input(variables_for(options));
  std::vector<Launch> launches;
  for (size_t node = 0; node < hosts.size(); ++node) {
    Launch launch;
    launch.label = fmt::format("node {} ({})", node, hosts[node].name);
    launch.arguments = ssh_command(options, hosts, static_cast<int>(node));
    launch.path = options.dry_run ? "ssh" : find_program("ssh");
    launch.holds_input = true;
    launch.input = input;
    launches.push_back(std::move(launch));
  }
  return launches;
}

std::vector<Launch> launches_of(const RunOptions& options, const std::vector<Host>& hosts) {
  return hosts.empty() ? local_launches(options) : remote_launches(options, hosts);
}

// Returns NAME=VALUE as a plan shows it: a value that others must not know is left out.
std::string shown(const std::string& name, const std::string& value) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const char* word : {"SECRET", "TOKEN", "PASSW", "KEY", "CREDENTIAL"})
    if (upper.find(word) != std::string::npos) return name + "=***";
  return name + "=" + shell_quoted(value);
}

void print_plan(const std::vector<Launch>& launches) {
  for (const Launch& launch : launches) {
    std::string line;
    for (const auto& [name, value] : launch.environment) line += shown(name, value) + " ";
    fmt::print("{}{}{}\n", launch.prefix, line, shell_line(launch.arguments));
  }
}

// Prints what tools on other machines read.
void print_variables(const RunOptions& options) {
  std::string line;
  for (const std::string& variable : variables_for(options)) {
    const size_t equals = variable.find('=');
    line += " " + shown(variable.substr(0, equals), variable.substr(equals + 1));
  }
  fmt::print("standard input of each:{}\n", line);
}

void make_log_folder(const RunOptions& options) {
  if (options.log_dir.empty()) return;
  std::error_code error;
  fs::create_directories(options.log_dir, error);
  if (error) fail_run("--log_dir: cannot make the folder {}: {}", options.log_dir, error.message());
}

// Each attempt uses a new folder, so that it never finds files of the previous one. Everything that
// one tool starts is one job, even if a script changes the arguments.
Outcome attempt(std::vector<Launch> launches, const RunOptions& options, Keeper& keeper,
                ToolCircle* others, int number) {
  const std::string place = fmt::format("{}/{}", keeper.folder(), number);
  for (size_t i = 0; i < launches.size(); ++i) {
    auto& environment = launches[i].environment;
    launches[i].notes = fmt::format("{}-notes-{}", place, i);
    environment["BOOSTER_NOTES"] = launches[i].notes;
    if (options.nnodes == 1) environment["BOOSTER_RENDEZVOUS"] = place;
    environment["BOOSTER_RESTART_COUNT"] = std::to_string(options.restart_count + number);
    if (options.nnodes == 1 && !environment::is_set("BOOSTER_JOB"))
      environment["BOOSTER_JOB"] = place;
  }
  StopRules rules{.grace = std::chrono::seconds(options.grace), .at_eof = options.stop_at_eof};
  if (!others) return supervise(launches, keeper, rules);
  rules.trouble_elsewhere = [&] { return others->trouble(number); };
  return others->agree(number, supervise(launches, keeper, rules));
}

int run_all(const RunOptions& options, const std::vector<Host>& hosts) {
  make_log_folder(options);
  for (const Launch& launch : launches_of(options, hosts))
    fs::remove(launch.log_path.empty() ? "/nonexistent" : launch.log_path);
  Keeper keeper;  // forks a process, so it is made before any thread
  std::optional<ToolCircle> others;
  if (options.nnodes > 1 && options.max_restarts > 0) others.emplace(options);
  for (int number = 0;; ++number) {
    RunOptions now = options;  // passed to remote tools
    now.restart_count += number;
    const Outcome outcome =
        attempt(launches_of(now, hosts), options, keeper, others ? &*others : nullptr, number);
    if (outcome.exit_code == 0 || outcome.interrupted || number == options.max_restarts)
      return outcome.exit_code;
    warn(fmt::format("booster run: starting all ranks again ({} of {} restarts)", number + 1,
                     options.max_restarts));
  }
}

int run_with(RunOptions options) {
  if (options.env_at_stdin) take_variables();
  take_secret_option(options);
  const auto hosts = hosts_of(options);
  if (options.master_port == 0)
    options.master_port = hosts.empty() && options.nnodes == 1 ? free_port() : 29500;
  if (hosts.empty()) options.nproc_per_node = std::max(1, options.nproc_per_node);
  if (!options.dry_run && options.nnodes > 1) shared_secret();  // an error appears once
  if (!options.dry_run) return run_all(options, hosts);
  print_plan(launches_of(options, hosts));
  if (!hosts.empty()) print_variables(options);
  return 0;
}

}  // namespace

int run_declared(const CLI::App& app, RunOptions options) {
  try {
    finish_run_options(app, options);
    return run_with(std::move(options));
  } catch (const Error& error) {
    warn(fmt::format("booster: {}", error.what()));
    return error.exit_code();
  }
}

int run_tool(const std::vector<std::string>& args) {
  CLI::App app("", "booster run");
  RunOptions options;
  declare_run_options(app, options);
  try {
    if (!parse_command_line(app, args)) return 0;
  } catch (const Error& error) {
    warn(fmt::format("error: {}", error.what()));
    return error.exit_code();
  }
  return run_declared(app, std::move(options));
}

}  // namespace booster
