#include "kernels/cuda/collectives/nccl_calls.h"

#include "kernels/cuda/runtime/libraries/libraries.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {
namespace {

struct Loaded {
  NcclCalls calls = {};
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  const Library library = open_library({"libnccl.so.2"});
  loaded.missing = library.missing;
  const auto find = [&]<class Call>(Call& call, const char* name) {
    if (!loaded.missing.empty()) return;
    call = reinterpret_cast<Call>(dlsym(library.handle, name));
    if (!call) loaded.missing = std::string("libnccl has no ") + name;
  };
  find(loaded.calls.get_version, "ncclGetVersion");
  find(loaded.calls.error_text, "ncclGetErrorString");
  find(loaded.calls.last_error, "ncclGetLastError");
  find(loaded.calls.make_id, "ncclGetUniqueId");
  find(loaded.calls.connect, "ncclCommInitRankConfig");
  find(loaded.calls.state, "ncclCommGetAsyncError");
  find(loaded.calls.finalize, "ncclCommFinalize");
  find(loaded.calls.destroy, "ncclCommDestroy");
  find(loaded.calls.abort, "ncclCommAbort");
  find(loaded.calls.begin_group, "ncclGroupStart");
  find(loaded.calls.end_group, "ncclGroupEnd");
  find(loaded.calls.all_reduce, "ncclAllReduce");
  find(loaded.calls.broadcast, "ncclBroadcast");
  find(loaded.calls.all_gather, "ncclAllGather");
  find(loaded.calls.reduce_scatter, "ncclReduceScatter");
  find(loaded.calls.send, "ncclSend");
  find(loaded.calls.receive, "ncclRecv");
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const NcclCalls* nccl_calls() { return loaded().missing.empty() ? &loaded().calls : nullptr; }
const std::string& why_no_nccl() { return loaded().missing; }

}  // namespace booster::kernels::cuda
