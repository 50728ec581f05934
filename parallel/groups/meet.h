// Where the ranks of a run find each other: makes the rendezvous that a place names.
#pragma once

#include "parallel/rendezvous/rendezvous.h"

#include <memory>
#include <string>

namespace booster {

// Joins the run of this job at `place`, a folder or "tcp://HOST:PORT", as `rank` of `size` ranks.
// All ranks call it. A rank takes part for as long as it keeps the result. `job` is the job's name
// as job_of() returns it (parallel/rendezvous/job.h); "" stands for the name without a launcher's
// id.
// Throws for a kind of place that does not exist, if another job meets there, if a living process
// has this rank, and what the kind of rendezvous throws.
std::shared_ptr<Rendezvous> meet(const std::string& place, int rank, int size,
                                 const std::string& job = "");

}  // namespace booster
