#include "booster/run/hosts.h"

#include "kernels/system/error.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

extern char** environ;

namespace booster {

namespace {

constexpr size_t longest_host = 253;
constexpr size_t most_hosts = 65536;

// A host that starts with anything but a letter or digit could be an option of ssh.
void check_host(const std::string& name, const std::string& where) {
  const auto legal = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  };
  check(
      !name.empty() && name.size() <= longest_host &&
          std::isalnum(static_cast<unsigned char>(name[0])) &&
          std::all_of(name.begin(), name.end(), legal),
      "{}: no host name; got '{}', want letters, digits, '.', '_' and '-', a letter or digit first",
      where, name);
}

void add_host(std::vector<std::string>& hosts, const std::string& name, const std::string& where) {
  check_host(name, where);
  check(std::find(hosts.begin(), hosts.end(), name) == hosts.end(), "{}: the host {} comes twice",
        where, name);
  check(hosts.size() < most_hosts, "{}: more than {} hosts", where, most_hosts);
  hosts.push_back(name);
}

std::vector<std::string> split_list(const std::string& list, const std::string& where) {
  std::vector<std::string> hosts;
  std::istringstream words(list + ",");
  for (std::string word; std::getline(words, word, ',');) add_host(hosts, word, where);
  return hosts;
}

std::vector<std::string> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  check(file.good(), "--hostfile: cannot read {}", path);
  std::vector<std::string> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, attribute;
    if (!(words >> name)) continue;
    add_host(hosts, name, where);
    while (words >> attribute)
      check(attribute.starts_with("slots=") || attribute.starts_with("port="),
            "{}: got '{}', want slots=N or port=N", where, attribute);
  }
  check(!hosts.empty(), "--hostfile: {} names no host", path);
  return hosts;
}

// Keeps the hosts for which `keep(is it in the list)` is true; error if the list names an unknown
// host.
template <class Keep>
void filter(std::vector<std::string>& hosts, const std::string& list, const std::string& where,
            Keep&& keep) {
  if (list.empty()) return;
  const auto named = split_list(list, where);
  for (const auto& name : named)
    check(std::find(hosts.begin(), hosts.end(), name) != hosts.end(),
          "{}: no such host in the hostfile; got '{}'{}", where, name, legal_names(name, hosts));
  std::erase_if(hosts, [&](const std::string& host) {
    return !keep(std::find(named.begin(), named.end(), host) != named.end());
  });
  check(!hosts.empty(), "{}: no host is left", where);
}

bool is_forwarded(std::string_view variable) {
  for (const char* prefix : {"BOOSTER_", "NCCL_", "GLOO_", "OMP_"})
    if (variable.starts_with(prefix))
      return !variable.starts_with("BOOSTER_RENDEZVOUS") &&
             !variable.starts_with("BOOSTER_NOTES") && !variable.starts_with("BOOSTER_SECRET");
  return false;
}

std::vector<std::string> forwarded_variables(const RunOptions& options) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable)
    if (is_forwarded(*variable)) result.push_back(*variable);
  for (const std::string& wanted : options.env) {
    const char* value = std::getenv(wanted.c_str());
    check(wanted.find('=') != std::string::npos || value, "--env: the variable {} is not set",
          wanted);
    result.push_back(wanted.find('=') != std::string::npos ? wanted : wanted + "=" + value);
  }
  return result;
}

}  // namespace

std::vector<std::string> hosts_of(const RunOptions& options) {
  if (!options.host.empty()) return split_list(options.host, "--host");
  if (options.hostfile.empty()) return {};
  auto hosts = read_hostfile(options.hostfile);
  filter(hosts, options.include, "--include", [](bool named) { return named; });
  filter(hosts, options.exclude, "--exclude", [](bool named) { return !named; });
  return hosts;
}

// Within single quotes a POSIX shell takes every byte literally, except the quote itself.
std::string shell_quoted(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return c < 128 &&
           (std::isalnum(c) || std::string_view("_-./:=@%+,").find(c) != std::string_view::npos);
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quoted(word);
  }
  return line;
}

std::vector<std::string> ssh_command(const RunOptions& options,
                                     const std::vector<std::string>& hosts, int node) {
  std::vector<std::string> remote = {"env"};
  for (const auto& variable : forwarded_variables(options)) remote.push_back(variable);
  remote.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  remote.insert(
      remote.end(),
      {"run", "--stop_at_eof", "--secret_at_stdin",
       "--nproc_per_node", std::to_string(options.nproc_per_node),
       "--nnodes", std::to_string(hosts.size()), "--node_rank", std::to_string(node),
       "--master_addr", options.master_addr.empty() ? hosts[0] : options.master_addr,
       "--master_port", std::to_string(options.master_port ? options.master_port : 29500)});
  if (options.grace != RunOptions().grace)
    remote.insert(remote.end(), {"--grace", std::to_string(options.grace)});
  if (!options.log_dir.empty()) remote.insert(remote.end(), {"--log_dir", options.log_dir});
  remote.push_back("--");
  remote.insert(remote.end(), options.command.begin(), options.command.end());
  std::vector<std::string> command = {"ssh", "-o", "BatchMode=yes"};
  if (options.ssh_port) command.insert(command.end(), {"-p", std::to_string(options.ssh_port)});
  const std::string folder = shell_quoted(std::filesystem::current_path().string());
  command.insert(command.end(),
                 {"--", hosts[node], "cd " + folder + " && exec " + shell_line(remote)});
  return command;
}

}  // namespace booster
