#include "parallel/rendezvous/rendezvous.h"

#include "parallel/rendezvous/seconds.h"
#include "platform/environment.h"
#include "platform/error.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace booster {

using std::chrono::milliseconds;

milliseconds group_timeout() { return seconds_variable("BOOSTER_TIMEOUT", 600); }
milliseconds heartbeat_limit() { return seconds_variable("BOOSTER_HEARTBEAT", 8, true); }

namespace {

std::string named(int rank, const std::string& details) {
  const std::string name = fmt::format("rank {}", rank);
  return details.empty() ? name : fmt::format("{} ({})", name, details);
}

}  // namespace

std::string Rendezvous::place(int rank) const {
  std::lock_guard lock(mutex_);
  const auto found = places_.find(rank);
  return found == places_.end() ? "" : found->second;
}

std::string Rendezvous::own_process() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return fmt::format("pid {} on {}", getpid(), host);
}

std::string Rendezvous::machine() const {
  if (environment::is_set("BOOSTER_MACHINE")) return environment::text("BOOSTER_MACHINE");
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  std::error_code ignored;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid"})
    text += " " + std::filesystem::read_symlink(space, ignored).string();
  return fmt::format("{} user {}", text, geteuid());
}

void Rendezvous::set_place(int rank, std::string place) {
  std::lock_guard lock(mutex_);
  places_[rank] = std::move(place);
}

std::string Rendezvous::name(int rank) const { return named(rank, place(rank)); }

std::string Rendezvous::describe(int rank) const {
  const std::string where = place(rank), what = process(rank);
  return named(rank, where + (where.empty() || what.empty() ? "" : "; ") + what);
}

}  // namespace booster
