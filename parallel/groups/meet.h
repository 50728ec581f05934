// Meeting of a run's ranks: makes the rendezvous that a place names.
#pragma once

#include "parallel/rendezvous/rendezvous.h"

#include <memory>
#include <string>

namespace booster {

// Joins the run of this job at `place`, a folder or "tcp://HOST:PORT", as `rank` of `size` ranks.
// All ranks call it. A rank takes part while it keeps the result. `job` is the job's name from
// job_of() (parallel/rendezvous/job.h). "" means the name without a launcher's id. Throws for an
// unknown kind of place, if another job meets there, or if a living process has this rank. Also
// throws the errors of the kind of rendezvous.
std::shared_ptr<Rendezvous> meet(const std::string& place, int rank, int size,
                                 const std::string& job = "");

}  // namespace booster
