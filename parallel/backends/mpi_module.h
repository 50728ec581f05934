// The MPI library as a table of functions, in a module loaded only on use
// (parallel/backends/mpi.cpp). Programs therefore run where MPI is not installed.
//
// The caller ensures that only one thread at a time calls any of these.
#pragma once

#include <cstddef>

namespace booster {

struct MpiModule {
  // Starts MPI unless the program has. Gives this process's rank among the processes of mpirun or
  // srun, their number, and the largest message tag. Returns null, or the error.
  const char* (*start)(int* rank, int* size, int* largest_tag);
  // Starts a message; null if it cannot be sent.
  void* (*send)(const void* data, size_t bytes, int to, int tag);
  void* (*receive)(void* data, size_t bytes, int from, int tag);
  // 1: complete, message freed; 0: in progress; -1: failed, message freed.
  int (*test)(void* message);
  // Frees a message that will not complete. Memory to be sent may still be read.
  void (*abandon)(void* message);
  // Returns the library's name and version; may be called before start().
  const char* (*version)();
  // Ends MPI if start() began it. Waits until all processes call it or, after a failure, makes
  // mpirun end them all.
  void (*finish)(bool failed);
};

// The name of the module's table.
inline constexpr const char* mpi_module_symbol = "booster_mpi_module";

}  // namespace booster
