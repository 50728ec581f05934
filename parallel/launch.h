// World: which rank this process is, read from what started it.
//
// Understood: `booster run` and torchrun (RANK, WORLD_SIZE, ...), Open MPI, MPICH and Slurm;
// without any of them the process is alone. Thread-safe.
#pragma once

#include "parallel/groups/group.h"

#include <string>

namespace booster {

struct World {
  int rank = 0, size = 1;              // of all processes
  int local_rank = 0, local_size = 1;  // of those on this machine
  std::string launcher = "alone";  // or "torchrun" (and the run tool), "Open MPI", "MPICH", "Slurm"
  std::string place;  // where the ranks meet (parallel/rendezvous/rendezvous.h); "" when alone
  std::string job;                 // what they compare there (parallel/rendezvous/job.h)

  // The group of all ranks. Made at the first call, at which all ranks must meet; the same group
  // for every call in this process.
  Group group() const;
};

// Error that names the variable if a value is missing, malformed or contradicts another. Where
// nobody has said how many threads the calling thread's kernels use, the processes on this machine
// share its processors from now on: without that each would use all of them.
World launch_from_env();

}  // namespace booster
