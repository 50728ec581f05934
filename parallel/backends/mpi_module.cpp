#include "parallel/backends/mpi_module.h"

// Excludes the C++ interface that old versions add.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace {

bool started_here = false;

const char* start(int* rank, int* size, int* largest_tag) {
  int running = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&running);
  if (!running) {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
      return "MPI_Init_thread failed";
    started_here = true;
  }
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED)
    return "this MPI serves one thread only; want MPI_THREAD_SERIALIZED or more";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  int* found = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &found, &is_set);
  *largest_tag = is_set ? *found : 32767;  // the standard's guaranteed minimum
  return nullptr;
}

void* under_way(int code, MPI_Request request) {
  return code == MPI_SUCCESS ? new MPI_Request(request) : nullptr;
}

void* send(const void* data, size_t bytes, int to, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                             &request);
  return under_way(code, request);
}

void* receive(void* data, size_t bytes, int from, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                             &request);
  return under_way(code, request);
}

int test(void* message) {
  auto* request = static_cast<MPI_Request*>(message);
  int done = 0;
  const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && !done) return 0;
  delete request;
  return code == MPI_SUCCESS ? 1 : -1;
}

void abandon(void* message) {
  auto* request = static_cast<MPI_Request*>(message);
  MPI_Cancel(request);
  MPI_Request_free(request);
  delete request;
}

const char* version() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

void finish(bool failed) {
  int ended = 0;
  MPI_Finalized(&ended);
  if (!started_here || ended) return;
  failed ? MPI_Abort(MPI_COMM_WORLD, 1) : MPI_Finalize();
}

}  // namespace

extern "C" const booster::MpiModule booster_mpi_module;
const booster::MpiModule booster_mpi_module = {start,   send,    receive, test,
                                               abandon, version, finish};
