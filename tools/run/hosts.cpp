#include "tools/run/hosts.h"

#include "platform/environment.h"
#include "platform/error.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

extern char** environ;

namespace booster {

namespace {

constexpr size_t longest_host = 253;
constexpr size_t most_hosts = 65536;
constexpr int most_slots = 4096;

// Refuses a host that does not start with a letter or digit: ssh could take it for an option.
void check_host(const std::string& name, const std::string& where) {
  const auto legal = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  };
  check(!name.empty() && name.size() <= longest_host &&
            std::isalnum(static_cast<unsigned char>(name[0])) &&
            std::all_of(name.begin(), name.end(), legal),
        "{}: not a host name; got '{}', want letters, digits, '.', '_' and '-', beginning with a "
        "letter or digit",
        where, name);
}

bool has(const std::vector<Host>& hosts, const std::string& name) {
  return std::ranges::find(hosts, name, &Host::name) != hosts.end();
}

Host& add_host(std::vector<Host>& hosts, const std::string& name, const std::string& where) {
  check_host(name, where);
  check(!has(hosts, name), "{}: duplicate host; got {} twice", where, name);
  check(hosts.size() < most_hosts, "{}: more than {} hosts", where, most_hosts);
  return hosts.emplace_back(Host{name});
}

// Returns the number after `name=`, or 0 if the word has another form.
int attribute(std::string_view word, std::string_view name, int most) {
  if (!word.starts_with(name)) return 0;
  word.remove_prefix(name.size());
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole && value >= 1 && value <= most ? value : 0;
}

std::vector<Host> split_list(const std::string& list, const std::string& where) {
  std::vector<Host> hosts;
  std::istringstream words(list + ",");
  for (std::string word; std::getline(words, word, ',');) add_host(hosts, word, where);
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  check(file.good(), "--hostfile: cannot read {}", path);
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    Host& host = add_host(hosts, name, where);
    for (std::string word; words >> word;) {
      const int slots = attribute(word, "slots=", most_slots),
                port = attribute(word, "port=", 65535);
      check(slots || port,
            "{}: unknown attribute; got '{}', want slots=N (1 to {}) or port=N (1 to 65535)", where,
            word, most_slots);
      int& chosen = slots ? host.slots : host.port;
      check(chosen == 0, "{}: duplicate attribute; got {} twice", where,
            slots ? "slots=" : "port=");
      chosen = slots ? slots : port;
    }
  }
  check(!hosts.empty(), "--hostfile: no hosts in {}; want one per line", path);
  return hosts;
}

// Keeps the hosts for which `keep(is it in the list)` is true; throws if the list names an unknown
// host.
template <class Keep>
void filter(std::vector<Host>& hosts, const std::string& list, const std::string& where,
            Keep&& keep) {
  if (list.empty()) return;
  const auto named = split_list(list, where);
  std::vector<std::string> known;
  for (const Host& host : hosts) known.push_back(host.name);
  for (const auto& [name, slots, port] : named)
    check(has(hosts, name), "{}: no such host in the hostfile; got '{}'{}", where, name,
          legal_names(name, known));
  std::erase_if(hosts, [&](const Host& host) { return !keep(has(named, host.name)); });
  check(!hosts.empty(), "{}: removes all hosts; want at least one", where);
}

bool is_forwarded(std::string_view variable) {
  for (const char* prefix : {"BOOSTER_", "NCCL_", "GLOO_", "OMP_"})
    if (variable.starts_with(prefix))
      return !variable.starts_with("BOOSTER_RENDEZVOUS") &&
             !variable.starts_with("BOOSTER_NOTES") && !variable.starts_with("BOOSTER_SECRET");
  return false;
}

}  // namespace

std::vector<std::string> forwarded_variables(const RunOptions& options) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable)
    if (is_forwarded(*variable)) result.push_back(*variable);
  for (const std::string& wanted : options.env) {
    check(wanted.find('=') != std::string::npos || environment::is_set(wanted),
          "--env: the variable {} is not set", wanted);
    result.push_back(
        wanted.find('=') != std::string::npos ? wanted : wanted + "=" + environment::text(wanted));
  }
  return result;
}

std::vector<Host> hosts_of(const RunOptions& options) {
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

int ranks_on(const Host& host, const RunOptions& options) {
  if (options.nproc_per_node == 0) return host.slots ? host.slots : 1;
  check(host.slots == 0 || options.nproc_per_node <= host.slots,
        "--nproc_per_node: more than the slots of {} in the hostfile; got {}, want at most {}",
        host.name, options.nproc_per_node, host.slots);
  return options.nproc_per_node;
}

namespace {

// Returns the options that give the launcher on node `node` its ranks.
std::vector<std::string> place_of_node(const RunOptions& options, const std::vector<Host>& hosts,
                                       size_t node) {
  const int own = ranks_on(hosts[node], options);
  int first = 0, all = 0;
  bool equal = true;
  for (size_t other = 0; other < hosts.size(); ++other) {
    const int ranks = ranks_on(hosts[other], options);
    if (other < node) first += ranks;
    all += ranks;
    equal = equal && ranks == ranks_on(hosts[0], options);
  }
  std::vector<std::string> words = {"--nproc_per_node", std::to_string(own),
                                    "--nnodes",         std::to_string(hosts.size()),
                                    "--node_rank",      std::to_string(node)};
  if (!equal)
    words.insert(words.end(),
                 {"--first_rank", std::to_string(first), "--world_size", std::to_string(all)});
  return words;
}

}  // namespace

// A host that does not answer and a broken connection must be noticed within a bounded time, so
// that the run ends.
std::vector<std::string> ssh_command(const RunOptions& options, const std::vector<Host>& hosts,
                                     int node) {
  std::vector<std::string> remote;
  const auto add = [&](const std::vector<std::string>& words) {
    remote.insert(remote.end(), words.begin(), words.end());
  };
  add({std::filesystem::read_symlink("/proc/self/exe").string(), "run", "--stop_at_eof",
       "--env_at_stdin"});
  add(place_of_node(options, hosts, static_cast<size_t>(node)));
  add({"--master_addr", options.master_addr.empty() ? hosts[0].name : options.master_addr,
       "--master_port", std::to_string(options.master_port ? options.master_port : 29500)});
  if (options.grace != RunOptions().grace) add({"--grace", std::to_string(options.grace)});
  if (options.restart_count) add({"--restart_count", std::to_string(options.restart_count)});
  if (!options.log_dir.empty()) add({"--log_dir", options.log_dir});
  add({"--"});
  add(options.command);
  std::vector<std::string> command = {
      "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5"};
  const Host& host = hosts[static_cast<size_t>(node)];
  if (const int port = host.port ? host.port : options.ssh_port)
    command.insert(command.end(), {"-p", std::to_string(port)});
  const std::string folder = shell_quoted(std::filesystem::current_path().string());
  command.insert(command.end(),
                 {"--", host.name, "cd " + folder + " && exec " + shell_line(remote)});
  return command;
}

}  // namespace booster
