#include "parallel/mesh.h"

#include "parallel/groups/meet.h"
#include "parallel/host_list.h"
#include "parallel/rendezvous/dead_places.h"
#include "parallel/rendezvous/job.h"
#include "parallel/rendezvous/launcher_watch.h"
#include "parallel/rendezvous/store/socket.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/threads.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

namespace booster {

namespace {

// The variables through which a launcher passes a process its rank and the world's size.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // null: see slurm_local_size
  // Variables that distinguish runs on this machine, where they are set: `place`, where the run
  // meets, and `job`, its unique name.
  std::vector<const char*> place, job;
};

const Launcher launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
     {"TORCHELASTIC_RUN_ID"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     nullptr,
     {},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_FD"},
     {"PMI_PORT"}},
};

// Returns an environment variable, "" if it is unset or has no name.
std::string variable(const char* name) { return name ? environment::text(name) : ""; }

// Parses a decimal integer in [low, high].
std::optional<int> whole_number(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    return std::nullopt;
  return value;
}

constexpr int most_ranks = 1 << 20;

int number_from(const char* name, int low, int high, std::string_view why) {
  const std::string text = variable(name);
  check(!text.empty(), "{}: is not set although {} is; want a number from {} to {}", name, why, low,
        high);
  const auto value = whole_number(text, low, high);
  check(value.has_value(), "{}: want a number from {} to {}; got '{}'", name, low, high, text);
  return *value;
}

// Returns the tasks on node `node` of a list such as "4(x2),3": 4, 4 and 3.
std::optional<int> tasks_on_node(std::string_view list, int node) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
    int repeats = 1;
    if (const auto times = entry.find("(x");
        times != std::string_view::npos && entry.back() == ')') {
      const auto count =
          whole_number(entry.substr(times + 2, entry.size() - times - 3), 1, most_ranks);
      if (!count) return std::nullopt;
      repeats = *count;
      entry = entry.substr(0, times);
    }
    if (node < repeats) return whole_number(entry, 1, most_ranks);
    node -= repeats;
  }
  return std::nullopt;
}

int slurm_local_size(int size) {
  const char* name = variable("SLURM_STEP_TASKS_PER_NODE").empty() ? "SLURM_TASKS_PER_NODE"
                                                                   : "SLURM_STEP_TASKS_PER_NODE";
  const std::string list = variable(name);
  if (list.empty()) return size;
  const int node = variable("SLURM_NODEID").empty()
                       ? 0
                       : number_from("SLURM_NODEID", 0, most_ranks, "SLURM_PROCID");
  const auto tasks = tasks_on_node(list, node);
  check(tasks.has_value(),
        "{}: no tasks for node {}; got '{}', want a list such as 4(x2),3 that covers it", name,
        node, list);
  return *tasks;
}

bool is_slurm(const Launcher& launcher) { return std::string_view(launcher.name) == "Slurm"; }

// A batch script has SLURM_PROCID too, but is not a task of a step: it runs alone.
bool is_batch_script(const Launcher& launcher) {
  return is_slurm(launcher) && !variable("SLURM_JOB_ID").empty() &&
         variable("SLURM_STEP_ID").empty();
}

bool is_torchrun(const Launcher& launcher) { return std::string_view(launcher.name) == "torchrun"; }

// Returns a name of "-", digits and letters only, because it becomes a file name.
std::string run_name(const Launcher& launcher) {
  std::string name = launcher.name;
  for (const char* key : launcher.place) name += fmt::format("-{}", variable(key));
  for (const char* key : launcher.job) name += fmt::format("-{}", variable(key));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return name.substr(0, 200);
}

// Returns the launcher's name for the run; "" if there is none. torchrun gives "none" for a run
// without a name.
std::string job_name(const Launcher& launcher) {
  std::string name;
  for (const char* key : launcher.job) {
    const std::string value = variable(key);
    if (value.empty() || value == "none") continue;
    name += (name.empty() ? "" : ".") + value;
  }
  return name;
}

std::string memory_folder() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; }

// Returns the prefix of the meeting place of ranks that have no place from a run tool.
std::string own_place_prefix() { return fmt::format("booster-{}-", geteuid()); }

// Removes the brackets that an IPv6 address may have: [fd00::1].
std::string without_brackets(const std::string& host) {
  const bool has = host.size() > 1 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

// Returns rank 0's machine: the first node of the step; "" if no variable names it.
std::string first_node() {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"})
    if (const std::string list = variable(name); !list.empty())
      return slurm_hosts(list, name).front();
  return "";
}

std::string master_address(const Launcher& launcher) {
  const std::string address = variable("MASTER_ADDR");
  if (address.empty() && is_slurm(launcher)) return first_node();
  return without_brackets(address);
}

// Uses the next port under torchrun, whose own store holds MASTER_PORT. If MASTER_PORT is unset,
// derives the port from the job's name, so that two jobs on one machine do not meet.
int master_port(const Launcher& launcher) {
  const std::string given = variable("MASTER_PORT");
  if (!given.empty()) {
    const int port = number_from("MASTER_PORT", 1, 65534, launcher.rank);
    return port + (variable("TORCHELASTIC_USE_AGENT_STORE") == "True");
  }
  uint32_t hash = 0;
  for (const char c : job_name(launcher)) hash = hash * 31 + static_cast<unsigned char>(c);
  return 20000 + static_cast<int>(hash % 10000);
}

bool means_this_machine(const std::string& host) {
  return host.empty() || host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Returns false where the number of ranks on this machine is unknown. Container platforms often
// state where rank 0 is, but not that number.
bool says_local_size(const Launcher& launcher) {
  return !is_torchrun(launcher) || !variable(launcher.local_size).empty() ||
         means_this_machine(without_brackets(variable("MASTER_ADDR")));
}

bool spans_machines(const Launcher& launcher, const World& world) {
  return world.local_size < world.size || !says_local_size(launcher);
}

std::string meeting_place(const Launcher& launcher, const World& world) {
  if (const std::string given = variable("BOOSTER_RENDEZVOUS"); !given.empty()) return given;
  if (!spans_machines(launcher, world))
    return memory_folder() + "/" + own_place_prefix() + run_name(launcher);
  Endpoint endpoint = {.host = master_address(launcher)};
  if (endpoint.host.empty()) return "";
  endpoint.port = master_port(launcher);
  return endpoint.text();
}

void check_master() {
  const std::string port = variable("MASTER_PORT");
  check(port.empty() || whole_number(port, 0, 65535),
        "MASTER_PORT: want a port from 0 to 65535; got '{}'", port);
}

World world_from(const Launcher& launcher) {
  World world;
  world.launcher = launcher.name;
  world.size = number_from(launcher.size, 1, most_ranks, launcher.rank);
  world.rank = number_from(launcher.rank, 0, most_ranks, launcher.size);
  check(world.rank < world.size, "{}: want less than {} = {}; got {}", launcher.rank, launcher.size,
        world.size, world.rank);
  const bool has_local = !variable(launcher.local_rank).empty();
  const bool has_local_size = !variable(launcher.local_size).empty();
  world.local_size = has_local_size ? number_from(launcher.local_size, 1, most_ranks, launcher.rank)
                     : launcher.local_size ? world.size
                                           : slurm_local_size(world.size);
  world.local_rank = has_local || has_local_size
                         ? number_from(launcher.local_rank, 0, most_ranks,
                                       has_local_size ? launcher.local_size : launcher.rank)
                         : world.rank;
  const char* local_size_name = launcher.local_size ? launcher.local_size : "SLURM_TASKS_PER_NODE";
  check(world.local_size <= world.size, "{}: want at most {} = {}; got {}", local_size_name,
        launcher.size, world.size, world.local_size);
  check(world.local_rank < world.local_size, "{}: want less than {} = {}; got {}",
        launcher.local_rank, local_size_name, world.local_size, world.local_rank);
  if (is_torchrun(launcher)) check_master();
  if (world.size == 1) return world;
  world.place = meeting_place(launcher, world);
  world.job = job_of(world.size, job_name(launcher));
  return world;
}

}  // namespace

World launch_from_env() {
  // The run tool reads a pipe. Each line goes there at once, so that a rank's lines outlive it.
  if (!variable("BOOSTER_NOTES").empty()) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  for (const Launcher& launcher : launchers) {
    const bool started = !variable(launcher.rank).empty() || !variable(launcher.size).empty();
    // SLURM_NTASKS alone belongs to an allocation, not to a task.
    const bool slurm_without_task = !launcher.local_size && variable(launcher.rank).empty();
    if (!started || slurm_without_task || is_batch_script(launcher)) continue;
    const World world = world_from(launcher);
    if (says_local_size(launcher)) kernels::share_processors(world.local_size);
    return world;
  }
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    check(variable(name).empty(), "{}: is set to '{}', but RANK and WORLD_SIZE are not set", name,
          variable(name));
  return {};
}

Group World::group() const {
  static std::mutex mutex;
  static std::optional<Group> made;
  std::lock_guard lock(mutex);
  if (made) return *made;
  if (size > 1) end_with_launcher();
  check(size == 1 || !place.empty(),
        "MASTER_ADDR: is not set, and the ranks are on several machines; want the address of rank "
        "0's machine on all of them (mpirun -x MASTER_ADDR passes it)");
  if (size > 1 && rank == 0 && variable("BOOSTER_RENDEZVOUS").empty())
    remove_dead_places(memory_folder(), own_place_prefix());
  return made.emplace(size == 1 ? Group() : Group(meet(place, rank, size, job)));
}

}  // namespace booster
