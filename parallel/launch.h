// World: this process's rank, read from the environment of its launcher.
//
// Launchers: `booster run` and torchrun (RANK, WORLD_SIZE, ...), Open MPI, MPICH and Slurm; without
// one the process is alone. Thread-safe.
#pragma once

#include "parallel/groups/group.h"

#include <string>

namespace booster {

struct World {
  int rank = 0, size = 1;              // among all processes
  int local_rank = 0, local_size = 1;  // among this machine's processes
  std::string launcher = "alone";  // or "torchrun" (and the run tool), "Open MPI", "MPICH", "Slurm"
  std::string place;  // meeting place of the ranks (parallel/rendezvous/rendezvous.h); "" if alone
  std::string job;                 // what the ranks compare there (parallel/rendezvous/job.h)

  // Returns the group of all ranks. The first call makes it, and all ranks must meet there; every
  // call in this process returns the same group.
  Group group() const;
};

// Reads the World. Throws an error that names the variable if a value is missing, malformed or
// contradicts another. Unless the number of threads of this thread's kernels is already set, the
// processes of this machine share its processors from now on. Otherwise each would use all of them.
World launch_from_env();

}  // namespace booster
