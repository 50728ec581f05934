// What a rank knows of the job that it belongs to. Ranks that meet compare it, so that two jobs at
// one place are told apart. Thread-safe.
#pragma once

#include <string>

namespace booster {

// One line, the same on all ranks of a job: the number of ranks, and BOOSTER_JOB if that is set,
// else `id`, what a launcher calls the job, else program, arguments and working folder. Arguments
// that say only which rank this is (--rank, --local_rank=1) do not count.
std::string job_of(int size, const std::string& id = "");

}  // namespace booster
