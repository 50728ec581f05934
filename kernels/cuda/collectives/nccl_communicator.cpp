// NCCL's calls may return before they are done. The communicator is non-blocking, so that a missing
// rank cannot block this one in a call. ncclInProgress is a success here, and is_ready() queries
// the outcome.
#include "kernels/cuda/collectives/collectives.h"
#include "kernels/cuda/collectives/nccl_calls.h"
#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/loaded_kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/events.h"
#include "kernels/cuda/runtime/refusals.h"
#include "platform/error.h"

#include <cstring>
#include <utility>

namespace booster::kernels::cuda {
namespace {

const NcclCalls& calls() {
  if (const NcclCalls* found = nccl_calls()) return *found;
  fail_run("NCCL: cannot be loaded: {}", why_no_nccl());
}

bool is_good(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

std::string text_of(ncclResult_t status, ncclComm_t communicator) {
  const char* more = calls().last_error(communicator);
  const std::string text = calls().error_text(status);
  return more && *more ? fmt::format("{} ({})", text, more) : text;
}

void require_nccl(ncclResult_t status, const char* call, ncclComm_t communicator = nullptr) {
  if (!is_good(status))
    fail_run("NCCL: {} failed; got \"{}\", want success", call, text_of(status, communicator));
}

ncclDataType_t type_of(DType dtype) {
  constexpr ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
                                      ncclInt32,   ncclInt64,   ncclUint8,   ncclUint8};
  return types[static_cast<int>(dtype)];
}

// Returns NCCL's operation; a bool is a byte of value 0 or 1.
ncclRedOp_t operation_of(Reduction reduction, DType dtype) {
  if (dtype == DType::boolean)
    return reduction == Reduction::sum || reduction == Reduction::max ? ncclMax : ncclMin;
  constexpr ncclRedOp_t operations[] = {ncclSum, ncclAvg, ncclMax, ncclMin, ncclProd};
  return operations[static_cast<int>(reduction)];
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int device, const std::string& id, int rank, int size);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;

  bool is_ready() override;
  void follow(Event& event) override { event.precede(stream_); }

  void all_reduce(void* data, int64_t count, DType dtype, Reduction reduction) override {
    give("ncclAllReduce", [&] {
      return calls().all_reduce(data, data, static_cast<size_t>(count), type_of(dtype),
                                operation_of(reduction, dtype), communicator_, stream_);
    });
  }
  void broadcast(void* data, size_t bytes, int root) override {
    give("ncclBroadcast", [&] {
      return calls().broadcast(data, data, bytes, ncclUint8, root, communicator_, stream_);
    });
  }
  void all_gather(void* out, const void* in, size_t bytes) override {
    give("ncclAllGather",
         [&] { return calls().all_gather(in, out, bytes, ncclUint8, communicator_, stream_); });
  }
  void reduce_scatter(void* out, const void* in, int64_t count, DType dtype,
                      Reduction reduction) override {
    give("ncclReduceScatter", [&] {
      return calls().reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype),
                                    operation_of(reduction, dtype), communicator_, stream_);
    });
  }
  void exchange(std::span<const GpuMessage> sent, std::span<const GpuMessage> received) override;
  void compute(const std::function<void()>& body) override {
    use(device_);
    const StreamScope scope(stream_);
    body();
  }
  void* scratch(size_t bytes) override;

  std::shared_ptr<Event> mark() override { return mark_stream(device_, stream_); }
  std::string trouble() override;
  void abort(const std::string& reason) override;
  void leave() override {
    give("ncclCommFinalize", [&] { return calls().finalize(communicator_); });
    is_leaving_ = true;
  }

 private:
  template <class Call>
  void give(const char* name, Call&& call) {
    if (!communicator_) fail_run("NCCL: {}: the communicator was aborted", name);
    use(device_);
    require_nccl(call(), name, communicator_);
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  bool is_leaving_ = false;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

NcclCommunicator::NcclCommunicator(int device, const std::string& id, int rank, int size)
    : device_(device) {
  ncclUniqueId known = {};
  check(id.size() == sizeof known.internal, "NCCL: wrong length of an id; got {} bytes, want {}",
        id.size(), sizeof known.internal);
  std::memcpy(known.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  use(device_);
  load_kernels();
  require_nccl(calls().connect(&communicator_, size, known, rank, &config),
               "ncclCommInitRankConfig");
  CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

// Destroys or aborts. Destroying may block until all ranks have left; aborting never waits for
// others. The runtime may already have ended, so it throws nothing.
NcclCommunicator::~NcclCommunicator() {
  cudaSetDevice(device_);
  ncclResult_t state = ncclInternalError;
  if (communicator_) calls().state(communicator_, &state);
  if (communicator_ && is_leaving_ && state == ncclSuccess)
    calls().destroy(communicator_);
  else if (communicator_)
    calls().abort(communicator_);
  if (stream_) cudaStreamDestroy(stream_);
  free(device_, scratch_);
}

bool NcclCommunicator::is_ready() {
  ncclResult_t state = ncclSuccess;
  give("ncclCommGetAsyncError", [&] { return calls().state(communicator_, &state); });
  require_nccl(state, "an operation", communicator_);
  return state == ncclSuccess;
}

std::string NcclCommunicator::trouble() {
  if (!communicator_) return "";
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = calls().state(communicator_, &state);
  if (!is_good(status)) return text_of(status, communicator_);
  return is_good(state) ? "" : text_of(state, communicator_);
}

void NcclCommunicator::exchange(std::span<const GpuMessage> sent,
                                std::span<const GpuMessage> received) {
  give("ncclGroupStart", [] { return calls().begin_group(); });
  ncclResult_t first = ncclSuccess;
  const auto note = [&](ncclResult_t status) {
    if (is_good(first)) first = status;
  };
  for (const GpuMessage& to : sent)
    note(calls().send(to.data, to.bytes, ncclUint8, to.peer, communicator_, stream_));
  for (const GpuMessage& from : received)
    note(calls().receive(from.data, from.bytes, ncclUint8, from.peer, communicator_, stream_));
  note(calls().end_group());  // a started group must end
  require_nccl(first, "a group of ncclSend and ncclRecv", communicator_);
}

// Returns memory for reductions. The runtime frees the old memory only when running work no longer
// uses it.
void* NcclCommunicator::scratch(size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  free(device_, std::exchange(scratch_, nullptr));
  scratch_bytes_ = 0;
  scratch_ = allocate_or_release(device_, bytes);
  if (!scratch_) fail_without_memory(device_, bytes);
  scratch_bytes_ = bytes;
  return scratch_;
}

void NcclCommunicator::abort(const std::string& reason) {
  refuse_copies(reason);
  use(device_);
  if (communicator_) calls().abort(std::exchange(communicator_, nullptr));
}

int version() {
  int number = 0;
  return nccl_calls() && calls().get_version(&number) == ncclSuccess ? number : 0;
}

std::array<std::byte, 16> identify(int device) {
  cudaDeviceProp properties = {};
  CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  std::array<std::byte, 16> identity;
  std::memcpy(identity.data(), &properties.uuid, identity.size());
  return identity;
}

std::string make_id() {
  ncclUniqueId id;
  require_nccl(calls().make_id(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

std::unique_ptr<Communicator> connect(int device, const std::string& id, int rank, int size) {
  return std::make_unique<NcclCommunicator>(device, id, rank, size);
}

}  // namespace

const Collectives collectives = {version, why_no_nccl, identify, make_id, connect};

}  // namespace booster::kernels::cuda
