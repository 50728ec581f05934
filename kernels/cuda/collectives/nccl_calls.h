// NCCL's functions for communicators, looked up when the first one connects. None is linked.
#pragma once

#include <nccl.h>

#include <string>

namespace booster::kernels::cuda {

struct NcclCalls {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) error_text;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclGetUniqueId) make_id;
  decltype(&ncclCommInitRankConfig) connect;
  decltype(&ncclCommGetAsyncError) state;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclGroupStart) begin_group;
  decltype(&ncclGroupEnd) end_group;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
};

// Returns null if there is no such library, or it lacks one of these.
const NcclCalls* nccl_calls();
// Returns why it is missing; empty if the library was found.
const std::string& why_no_nccl();

}  // namespace booster::kernels::cuda
