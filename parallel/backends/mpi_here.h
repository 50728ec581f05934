// Whether this machine's MPI library can be used. Thread-safe.
#pragma once

#include <string>

namespace booster {

struct MpiHere {
  std::string version;  // the library's name and version; "" if there is none
  std::string missing;  // why there is none
};
// Loads the MPI library, and starts nothing.
MpiHere mpi_here();

}  // namespace booster
