#include "parallel/backends/nccl.h"

#include "kernels/catalogue.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "parallel/operations/operation_tag.h"
#include "platform/warn.h"

#include <mutex>
#include <numeric>
#include <utility>

namespace booster {

namespace {

using kernels::GpuMessage;
using kernels::View;

kernels::Reduction named(CollectiveOp reduction) {
  constexpr kernels::Reduction same[] = {kernels::Reduction::sum, kernels::Reduction::mean,
                                         kernels::Reduction::max, kernels::Reduction::min,
                                         kernels::Reduction::product};
  return same[static_cast<int>(reduction)];
}

// NCCL's maximum and minimum of floating values ignore nan, ours do not. So all ranks' values are
// gathered here, and our kernel compares them.
bool is_compared_here(CollectiveOp reduction, DType dtype) {
  return is_floating(dtype) && (reduction == CollectiveOp::max || reduction == CollectiveOp::min);
}

View run_of(const Buffer& like, void* data, int64_t count) {
  return {.data = data,
          .dtype = like.dtype,
          .device = like.device,
          .ndim = 1,
          .shape = {count},
          .strides = {1}};
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

NcclBackend::NcclBackend(std::unique_ptr<HostBackend> host, bool is_wanted)
    : Backend(host->members()),
      host_(std::move(host)),
      copies_(through_host(host_)),
      is_wanted_(is_wanted),
      whole_(*host_, all_ranks(members().size())),
      is_used_(is_wanted) {}

std::shared_ptr<kernels::Event> NcclBackend::mark(Device device) {
  if (device.type == DeviceType::cpu || nccl_here().version == 0) return nullptr;
  return kernels::cuda_module_for(device).mark(device.index, nullptr);
}

void NcclBackend::begin(const char* operation, OperationTag tag,
                        std::shared_ptr<kernels::Event> behind) {
  Backend::begin(operation, tag);
  host_->begin(operation, tag);
  behind_ = std::move(behind);
  narrow_to({});
}

// Returns null if the link's ranks cannot use NCCL.
kernels::Communicator* NcclBackend::connect(GpuLink& link, Device device) {
  Communicator* const known = link.communicator();
  Communicator* const found = link.connect(device);
  if (!found) {
    if (is_wanted_) fail_run("BOOSTER_BACKEND=nccl: {}", link.obstacle());
    static std::once_flag once;
    if (rank() == 0)
      std::call_once(once, [&] {
        warn(fmt::format("booster: tensors on GPUs go through the host's memory: {}",
                         link.obstacle()));
      });
    return nullptr;
  }
  if (!known) await(*found);
  is_used_ = true;
  found->follow(*behind_);
  return found;
}

// Returns the communicator of all ranks if each has its memory on its own GPU. Otherwise returns
// null, and the host's backend runs the operation.
kernels::Communicator* NcclBackend::between_all(const Signature& own, Device device) {
  if (device.type == DeviceType::cpu || !whole_.may_serve(device)) return nullptr;
  Communicator* const all = host_->agree(own.directly(true)) ? connect(whole_, device) : nullptr;
  if (!all) host_->skip_agreement();
  return all;
}

// Sends part r of `in` to rank r, and receives rank r's part at place r of `out`.
void NcclBackend::exchange_parts(Communicator& all, std::byte* out, const Buffer& in) {
  const int64_t count = in.count / size(), bytes = count * size_of(in.dtype);
  auto* parts = static_cast<std::byte*>(in.data);
  std::vector<GpuMessage> sent, received;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sent.push_back({peer, parts + peer * bytes, static_cast<size_t>(bytes)});
    received.push_back({peer, out + peer * bytes, static_cast<size_t>(bytes)});
  }
  all.compute([&] {
    kernels::on(in.device).copy(run_of(in, out + rank() * bytes, count),
                                run_of(in, parts + rank() * bytes, count));
  });
  all.exchange(sent, received);
}

// `sources` holds all ranks' values, rank by rank.
void NcclBackend::compare(Communicator& all, const Buffer& out, std::byte* sources,
                          CollectiveOp reduction) {
  const auto step =
      reduction == CollectiveOp::max ? kernels::BinaryOp::maximum : kernels::BinaryOp::minimum;
  const auto of_rank = [&](int peer) {
    return run_of(out, sources + peer * out.bytes(), out.count);
  };
  const View result = run_of(out, out.data, out.count);
  await(all);
  all.compute([&] {
    for (int peer = 1; peer < size(); ++peer)
      kernels::on(out.device).binary(step, result, peer == 1 ? of_rank(0) : result, of_rank(peer));
  });
}

void NcclBackend::all_reduce(const Buffer& data, CollectiveOp reduction) {
  const Signature own = Signature::of(Collective::all_reduce, data, reduction);
  Communicator* const all = between_all(own, data.device);
  if (!all) return copy(data.device, [&] { copies_->all_reduce(data, reduction); });
  if (data.count == 0) return;
  if (is_compared_here(reduction, data.dtype)) {
    const auto bytes = static_cast<size_t>(data.bytes());
    auto* sources = static_cast<std::byte*>(all->scratch(bytes * members().ranks.size()));
    all->all_gather(sources, data.data, bytes);
    compare(*all, data, sources, reduction);
  } else {
    all->all_reduce(data.data, data.count, data.dtype, named(reduction));
  }
  finish({all}, {data});
}

void NcclBackend::broadcast(const Buffer& data, int root) {
  const Signature own =
      Signature::of(Collective::broadcast, data, CollectiveOp::sum, members().ranks[root]);
  Communicator* const all = between_all(own, data.device);
  if (!all) return copy(data.device, [&] { copies_->broadcast(data, root); });
  if (data.count == 0) return;
  all->broadcast(data.data, static_cast<size_t>(data.bytes()), root);
  finish({all}, {data});
}

void NcclBackend::all_gather(const Buffer& out, const Buffer& in) {
  Communicator* const all = between_all(Signature::of(Collective::all_gather, in), in.device);
  if (!all) return copy(in.device, [&] { copies_->all_gather(out, in); });
  if (in.count == 0) return;
  all->all_gather(out.data, in.data, static_cast<size_t>(in.bytes()));
  finish({all}, {out, in});
}

void NcclBackend::reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  const Signature own = Signature::of(Collective::reduce_scatter, out, reduction);
  Communicator* const all = between_all(own, out.device);
  if (!all) return copy(in.device, [&] { copies_->reduce_scatter(out, in, reduction); });
  if (out.count == 0) return;
  if (is_compared_here(reduction, out.dtype)) {
    auto* sources = static_cast<std::byte*>(all->scratch(static_cast<size_t>(in.bytes())));
    exchange_parts(*all, sources, in);
    compare(*all, out, sources, reduction);
  } else {
    all->reduce_scatter(out.data, in.data, out.count, out.dtype, named(reduction));
  }
  finish({all}, {out, in});
}

void NcclBackend::all_to_all(const Buffer& out, const Buffer& in) {
  Communicator* const all = between_all(Signature::of(Collective::all_to_all, in), in.device);
  if (!all) return copy(in.device, [&] { copies_->all_to_all(out, in); });
  if (in.count == 0) return;
  exchange_parts(*all, static_cast<std::byte*>(out.data), in);
  finish({all}, {out, in});
}

std::unique_ptr<Backend> by_nccl(std::unique_ptr<HostBackend> host, bool is_wanted) {
  if (is_wanted) {
    const NcclHere here = nccl_here();
    if (here.version == 0)
      fail_run("BOOSTER_BACKEND=nccl: NCCL is not available: {}", here.missing);
    if (kernels::cuda_device_count() == 0)
      fail_run("BOOSTER_BACKEND=nccl: this process has no usable GPU");
  }
  return std::make_unique<NcclBackend>(std::move(host), is_wanted);
}

}  // namespace booster
