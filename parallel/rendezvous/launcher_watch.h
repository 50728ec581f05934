// Ends this rank when the launcher that started it has died. mpirun and its daemons end their ranks
// when they end themselves, but not when they are killed: the ranks would train on for ever, or
// wait for one another. `booster run` needs none of this (tools/run/process.h).
#pragma once

#include <sys/types.h>

namespace booster {

// Returns the nearest ancestor of this process that is a launcher of MPI or Slurm by its name; 0 if
// there is none.
pid_t find_launcher();

// From now on this process gets SIGTERM when the launcher ends, as from a launcher that stops its
// ranks; ten minutes later SIGKILL. Does nothing if there is no launcher, and from the second call
// on.
void end_with_launcher();

}  // namespace booster
