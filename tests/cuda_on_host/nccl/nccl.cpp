// NCCL between processes of one machine. Undefined behaviour of NCCL is a fault here: a call while
// the last one is in progress, another device, a second stream, a call after abort, or ranks with
// different calls. Operations run in stream order, and only together with the other ranks'
// operations.
//
// CUDA_ON_HOST_NCCL makes it fail: "connect" (an error while it connects), "absent" (it never
// connects), "operation=N" (the process's N-th operation never ends and reports an error),
// "stuck=N" (it never ends and reports nothing), "version=V".
#include "tests/cuda_on_host/include/nccl.h"

#include "tests/cuda_on_host/device/chance.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/nccl/nccl_operation.h"
#include "tests/cuda_on_host/nccl/nccl_reduce.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/streams/streams.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>

using namespace cuda_on_host;

namespace {

using Operation = std::shared_ptr<NcclOperation>;

// Returns N of "WHAT=N" if this failure is requested (1 without a number), else 0.
int asked_for(std::string_view what) {
  const char* text = std::getenv("CUDA_ON_HOST_NCCL");
  const std::string_view asked = text ? text : "";
  if (!asked.starts_with(what)) return 0;
  return asked.size() > what.size() ? std::atoi(asked.data() + what.size() + 1) : 1;
}

// State that operations in streams need even after the communicator is gone.
struct State {
  State(const std::string& name, int rank, int size, const NcclLink::Gpu& gpu)
      : link(name, rank, size, gpu) {}
  NcclLink link;
  bool is_aborted = false;
  int running = 0;
  ncclResult_t error = ncclSuccess;
};

}  // namespace

struct cuda_on_host_communicator {
  std::shared_ptr<State> state;
  int rank, size, device;
  cudaStream_t stream = nullptr;
  bool is_connected = false, is_leaving = false;
  int delay = 0;              // polls until the last call is accepted
  Operation taken = nullptr;  // the operation accepted then
};

namespace {

std::vector<ncclComm_t>& alive() {
  static auto* all = new std::vector<ncclComm_t>;
  return *all;
}

void check_alive(ncclComm_t communicator, const char* call) {
  if (std::ranges::count(alive(), communicator) == 0)
    fault("{}: there is no such communicator any more", call);
}

void forget(ncclComm_t communicator) {
  std::erase(alive(), communicator);
  delete communicator;
  count_communicators(-1);
}

// The operation enters its stream once NCCL has accepted it: an event recorded earlier does not
// cover it.
void launch(ncclComm_t communicator) {
  static int count = 0;
  ++count;
  const auto state = communicator->state;
  const auto operation = std::exchange(communicator->taken, nullptr);
  const bool fails = asked_for("operation") == count, is_stuck = asked_for("stuck") == count;
  ++state->running;
  give_attempts(communicator->stream, [=] {
    if (fails) state->error = ncclRemoteError;
    if (state->is_aborted)
      operation->give_up();
    else if (fails || is_stuck || !operation->go_on(state->link))
      return false;
    --state->running;
    return true;
  });
}

ncclResult_t take(ncclComm_t communicator, const Operation& operation) {
  communicator->taken = operation;
  communicator->delay = static_cast<int>(chance(3));
  if (communicator->delay > 0) return ncclInProgress;
  launch(communicator);
  return ncclSuccess;
}

// Checks common to all operations.
void check_call(ncclComm_t communicator, cudaStream_t stream, const char* call) {
  check_alive(communicator, call);
  if (!communicator->is_connected) fault("{}: the ranks are not connected yet", call);
  if (communicator->delay > 0) fault("{}: the last call is still in progress", call);
  if (communicator->is_leaving) fault("{}: the communicator is being left", call);
  if (communicator->device != device_of_thread() || device_of(stream) != communicator->device)
    fault("{}: the communicator is for another device", call);
  if (communicator->stream && communicator->stream != stream)
    fault("{}: the communicator was used with another stream", call);
  communicator->stream = stream;
}

Operation operation_of(ncclComm_t communicator, const char* name, ncclDataType_t type,
                       int reduction = -1, int root = 0) {
  NcclOperation::Kind kind = {{}, 0, type, reduction, root};
  std::strncpy(kind.name, name, sizeof kind.name - 1);
  return std::make_shared<NcclOperation>(kind, communicator->rank, communicator->size);
}

// Adds this rank's own data to the other ranks' messages.
NcclOperation::Messages with_own(NcclOperation::Messages messages, int rank,
                                 std::vector<char> own) {
  messages[static_cast<size_t>(rank)] = std::move(own);
  return messages;
}

ncclResult_t reduce(const char* name, const void* in, void* out, size_t count, size_t out_count,
                    ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t communicator,
                    cudaStream_t stream) {
  const auto turn = take_turn();
  check_call(communicator, stream, name);
  if (reduction == ncclAvg && type <= ncclInt64) return ncclInvalidArgument;
  const int rank = communicator->rank;
  const size_t bytes = count * size_of(type), out_bytes = out_count * size_of(type);
  const auto operation = operation_of(communicator, name, type, reduction);
  for (int peer = 0; peer < communicator->size; ++peer) {
    if (peer == rank) continue;
    operation->send(peer, in, bytes);
    operation->expect(peer, bytes);
  }
  const size_t first = out_bytes == bytes ? 0 : static_cast<size_t>(rank) * out_bytes;
  operation->finish_by([=](const NcclOperation::Messages& messages) {
    const auto sources = with_own(messages, rank, read_device(in, bytes, true));
    const auto all = reduce_around_ring(sources, type, reduction);
    const char* part = all.data() + first;
    write_device(out, {part, part + out_bytes});
  });
  return take(communicator, operation);
}

// A group of messages that this thread is assembling.
struct Group {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, Operation>> operations;
  std::vector<std::vector<std::pair<int, void*>>> targets;
};
thread_local Group group;

size_t place_in_group(ncclComm_t communicator) {
  for (size_t i = 0; i < group.operations.size(); ++i)
    if (group.operations[i].first == communicator) return i;
  group.operations.emplace_back(communicator, operation_of(communicator, "send/recv", ncclUint8));
  group.targets.emplace_back();
  return group.operations.size() - 1;
}

}  // namespace

#define EXPORTED [[gnu::visibility("default")]]

extern "C" {

EXPORTED ncclResult_t ncclGetVersion(int* version) {
  *version = asked_for("version") ? asked_for("version") : 22809;
  return ncclSuccess;
}
EXPORTED const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "unhandled system error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "internal error";
  }
}
EXPORTED const char* ncclGetLastError(ncclComm_t) { return "played by a test"; }

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "%d-%d-%u", static_cast<int>(getpid()), made++,
                std::random_device()());
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id,
                                             int rank, ncclConfig_t* config) {
  const auto turn = take_turn();
  if (config->blocking != 0) fault("ncclCommInitRankConfig: it blocks until all ranks come");
  if (rank < 0 || rank >= size) return ncclInvalidArgument;
  cudaDeviceProp properties = {};
  cudaGetDeviceProperties(&properties, device_of_thread());
  NcclLink::Gpu gpu;
  std::copy_n(properties.uuid.bytes, gpu.size(), gpu.begin());
  *communicator = new cuda_on_host_communicator{
      std::make_shared<State>(id.internal, rank, size, gpu), rank, size, device_of_thread()};
  alive().push_back(*communicator);
  count_communicators(1);
  return ncclInProgress;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const auto turn = take_turn();
  check_alive(communicator, "ncclCommGetAsyncError");
  *state = ncclInProgress;
  if (!communicator->is_connected) {
    if (asked_for("connect")) *state = ncclSystemError;
    if (asked_for("absent") || asked_for("connect")) return ncclSuccess;
    communicator->state->link.join();
    if (!communicator->state->link.is_complete()) return ncclSuccess;
    if (communicator->state->link.has_one_gpu_twice())
      *state = ncclInvalidUsage;
    else
      communicator->is_connected = true;
    return ncclSuccess;
  }
  if (communicator->delay > 0 && --communicator->delay == 0) launch(communicator);
  if (communicator->state->error != ncclSuccess)
    *state = communicator->state->error;
  else if (communicator->delay == 0 &&
           (!communicator->is_leaving || communicator->state->link.is_left_by_all()))
    *state = ncclSuccess;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const auto turn = take_turn();
  check_alive(communicator, "ncclCommFinalize");
  if (communicator->delay > 0) fault("ncclCommFinalize: the last call is still in progress");
  communicator->is_leaving = true;
  communicator->state->link.leave();
  return ncclInProgress;
}
EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const auto turn = take_turn();
  check_alive(communicator, "ncclCommDestroy");
  if (!communicator->is_leaving || !communicator->state->link.is_left_by_all())
    fault("ncclCommDestroy: not all ranks have left, it may never return");
  if (communicator->state->running > 0) fault("ncclCommDestroy: operations still run");
  forget(communicator);
  return ncclSuccess;
}
EXPORTED ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const auto turn = take_turn();
  check_alive(communicator, "ncclCommAbort");
  communicator->state->is_aborted = true;
  forget(communicator);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
EXPORTED ncclResult_t ncclGroupEnd() {
  const auto turn = take_turn();
  if (group.depth == 0) fault("ncclGroupEnd: no group was started");
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < group.operations.size(); ++i) {
    const auto& [communicator, operation] = group.operations[i];
    operation->finish_by([targets = group.targets[i]](const NcclOperation::Messages& messages) {
      for (const auto& [peer, data] : targets)
        write_device(data, messages[static_cast<size_t>(peer)]);
    });
    if (take(communicator, operation) == ncclInProgress) result = ncclInProgress;
  }
  group = {};
  return result;
}

EXPORTED ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t communicator, cudaStream_t stream) {
  const auto turn = take_turn();
  check_call(communicator, stream, "ncclSend");
  if (group.depth == 0) fault("ncclSend: outside of a group");
  if (peer < 0 || peer >= communicator->size || peer == communicator->rank)
    return ncclInvalidArgument;
  const size_t place = place_in_group(communicator);
  group.operations[place].second->send(peer, data, count * size_of(type));
  return ncclSuccess;
}
EXPORTED ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t communicator, cudaStream_t stream) {
  const auto turn = take_turn();
  check_call(communicator, stream, "ncclRecv");
  if (group.depth == 0) fault("ncclRecv: outside of a group");
  if (peer < 0 || peer >= communicator->size || peer == communicator->rank)
    return ncclInvalidArgument;
  const size_t place = place_in_group(communicator);
  for (const auto& [other, target] : group.targets[place])
    if (other == peer) fault("ncclRecv: two messages from one rank in a group");
  group.operations[place].second->expect(peer, count * size_of(type));
  group.targets[place].emplace_back(peer, data);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                                    ncclRedOp_t operation, ncclComm_t communicator,
                                    cudaStream_t stream) {
  return reduce("ncclAllReduce", in, out, count, count, type, operation, communicator, stream);
}
EXPORTED ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count,
                                        ncclDataType_t type, ncclRedOp_t operation,
                                        ncclComm_t communicator, cudaStream_t stream) {
  const size_t all = count * static_cast<size_t>(communicator->size);
  return reduce("ncclReduceScatt", in, out, all, count, type, operation, communicator, stream);
}

EXPORTED ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type,
                                    int root, ncclComm_t communicator, cudaStream_t stream) {
  const auto turn = take_turn();
  check_call(communicator, stream, "ncclBroadcast");
  const size_t bytes = count * size_of(type);
  const auto operation = operation_of(communicator, "ncclBroadcast", type, -1, root);
  const bool is_root = communicator->rank == root;
  for (int peer = 0; peer < communicator->size; ++peer)
    if (is_root && peer != root) operation->send(peer, in, bytes);
  if (!is_root) operation->expect(root, bytes);
  operation->finish_by([=](const NcclOperation::Messages& messages) {
    if (!is_root)
      write_device(out, messages[static_cast<size_t>(root)]);
    else if (out != in)
      write_device(out, read_device(in, bytes, false));
  });
  return take(communicator, operation);
}

EXPORTED ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                                    ncclComm_t communicator, cudaStream_t stream) {
  const auto turn = take_turn();
  check_call(communicator, stream, "ncclAllGather");
  const size_t bytes = count * size_of(type);
  const int rank = communicator->rank, size = communicator->size;
  const auto operation = operation_of(communicator, "ncclAllGather", type);
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    operation->send(peer, in, bytes);
    operation->expect(peer, bytes);
  }
  operation->finish_by([=](const NcclOperation::Messages& messages) {
    const auto all = with_own(messages, rank, read_device(in, bytes, false));
    for (int peer = 0; peer < size; ++peer)
      write_device(static_cast<char*>(out) + static_cast<size_t>(peer) * bytes,
                   all[static_cast<size_t>(peer)]);
  });
  return take(communicator, operation);
}
}
