// The MPI library behind a table of functions, in a module that is loaded only when it is used
// (parallel/backends/mpi.cpp): a program runs where MPI is not installed.
//
// One thread at a time may be in any of these; the caller sees to it.
#pragma once

#include <cstddef>

namespace booster {

struct MpiModule {
  // Starts MPI unless the program has. Gives this process's place among those that mpirun or srun
  // started, and the largest tag that a message may have. Null, or what is wrong.
  const char* (*start)(int* rank, int* size, int* largest_tag);
  // A message under way; null for what cannot be sent.
  void* (*send)(const void* data, size_t bytes, int to, int tag);
  void* (*receive)(void* data, size_t bytes, int from, int tag);
  // 1: complete, and the message is gone; 0: still under way; -1: it failed, and is gone.
  int (*test)(void* message);
  // Lets go of what will not come any more. Memory that was to be sent may still be read.
  void (*abandon)(void* message);
  // Ends MPI if start() has begun it: waits until all processes have come to this, or, after a
  // failure, has mpirun end them all.
  void (*finish)(bool failed);
};

// The name under which the module has its table.
inline constexpr const char* mpi_module_symbol = "booster_mpi_module";

}  // namespace booster
