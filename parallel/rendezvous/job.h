// The identity of a rank's job. Ranks that meet compare it, so that two jobs at one place do not
// mix. Thread-safe.
#pragma once

#include <string>

namespace booster {

// Returns one line, the same on all ranks of a job: the number of ranks and a name. The name is
// BOOSTER_JOB if set, else `id` (a launcher's name of the job), else program, arguments and working
// folder. Arguments that only give this rank (--rank, --local_rank=1) are ignored.
std::string job_of(int size, const std::string& id = "");

}  // namespace booster
