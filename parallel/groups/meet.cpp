#include "parallel/groups/meet.h"

#include "parallel/rendezvous/folder.h"
#include "parallel/rendezvous/job.h"
#include "parallel/rendezvous/store/store.h"
#include "platform/error.h"
#include "platform/forks.h"

namespace booster {

std::shared_ptr<Rendezvous> meet(const std::string& place, int rank, int size,
                                 const std::string& job) {
  const std::string name = job.empty() ? job_of(size) : job;
  if (place.starts_with("tcp://"))
    return make_shared_here<StoreRendezvous>(Endpoint::from(place), rank, size, name);
  check(place.find("://") == std::string::npos,
        "rendezvous: unknown kind of meeting place; got '{}', want a folder or tcp://HOST:PORT",
        place);
  return make_shared_here<FolderRendezvous>(place, rank, size, name);
}

}  // namespace booster
