#include "parallel/backends/host_backend.h"
#include "parallel/backends/mpi_here.h"
#include "platform/environment.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace booster {

namespace {

struct Row {
  const char* name;
  std::unique_ptr<HostBackend> (*make)(Membership);
};

// Fastest first: the first that this machine can serve is used.
constexpr Row rows[] = {
    {"shm", make_shared_memory},
#ifdef BOOSTER_HAS_GLOO
    {"shm+gloo", make_shared_memory_and_gloo},
    {"gloo", make_gloo},
#endif
#ifdef BOOSTER_HAS_MPI
    {"mpi", make_mpi},
#endif
};

// Serves GPUs on top of one of the backends above.
constexpr const char* nccl = "nccl";

}  // namespace

#ifndef BOOSTER_HAS_MPI
MpiHere mpi_here() { return {.version = "", .missing = "built without MPI (-Dmpi)"}; }
#endif

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  names.push_back(nccl);
  return names;
}

std::unique_ptr<Backend> make_backend(Membership members) {
  if (members.size() == 1) return make_local(std::move(members));
  const std::string wanted = environment::text("BOOSTER_BACKEND");
  const auto names = backend_names();
  check(wanted.empty() || std::find(names.begin(), names.end(), wanted) != names.end(),
        "BOOSTER_BACKEND: no such backend; got '{}'{}", wanted, legal_names(wanted, names));
  members.rendezvous->wait_for(members.ranks);
  const bool may_use_nccl = wanted.empty() || wanted == nccl;
  for (const Row& row : rows) {
    if (!may_use_nccl && wanted != row.name) continue;
    if (auto backend = row.make(members))
      return may_use_nccl ? by_nccl(std::move(backend), wanted == nccl)
                          : through_host(std::move(backend));
  }
  fail_run("Group: {} cannot connect {} ranks on these machines; built in: {}",
           wanted.empty() ? "no backend" : wanted, members.size(), fmt::join(names, ", "));
}

}  // namespace booster
