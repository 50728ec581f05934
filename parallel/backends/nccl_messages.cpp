// Messages between two ranks.
#include "parallel/backends/nccl.h"

#include <algorithm>
#include <utility>

namespace booster {

namespace {

bool is_on_gpu(const Buffer& data) { return data.device.type != DeviceType::cpu; }

bool are_on_two_gpus(const Messages& what) {
  return is_on_gpu(what.out) && is_on_gpu(what.in) && what.out.device != what.in.device;
}

}  // namespace

// Returns the whole group's link once it is connected: ranks reach that point in the same order as
// a message.
GpuLink& NcclBackend::link_to(int peer) {
  if (size() == 2 || whole_.communicator()) return whole_;
  const std::vector<int> both = {std::min(rank(), peer), std::max(rank(), peer)};
  return pairs_.try_emplace(peer, *host_, both).first->second;
}

// Connects lower pairs first on all ranks, so that a ring of ranks does not wait for itself.
void NcclBackend::connect_pairs(const Messages& what, Directly& directly) {
  const auto pair_with = [&](int peer) { return std::minmax({rank(), peer}); };
  const bool out_first = pair_with(what.to) < pair_with(what.from);
  const auto connect_out = [&] {
    if (directly.out) directly.out = connect(link_to(what.to), what.out.device) != nullptr;
  };
  if (out_first) connect_out();
  if (directly.in) directly.in = connect(link_to(what.from), what.in.device) != nullptr;
  if (!out_first) connect_out();
}

void NcclBackend::move_through_host(const Messages& what, Directly directly) {
  const bool sends = what.to != nobody && !directly.out,
             receives = what.from != nobody && !directly.in;
  if (!sends && !receives) return;
  const auto body = [&] {
    if (sends && receives)
      copies_->send_receive(what.out, what.to, what.in, what.from);
    else if (sends)
      copies_->send(what.out, what.to);
    else
      copies_->receive(what.in, what.from);
  };
  if (are_on_two_gpus(what)) return body();
  copy(is_on_gpu(what.out) ? what.out.device : what.in.device, body);
}

// Messages of the same call that go through the host follow while NCCL works.
void NcclBackend::move_directly(const Messages& what, Directly directly) {
  std::vector<Communicator*> used;
  std::vector<Buffer> memory;
  std::vector<kernels::GpuMessage> sent, received;
  const auto add = [&](std::vector<kernels::GpuMessage>& messages, int peer, const Buffer& data) {
    GpuLink& link = link_to(peer);
    messages.push_back({link.place_of(peer), data.data, static_cast<size_t>(data.bytes())});
    used.push_back(link.communicator());
    memory.push_back(data);
  };
  if (directly.out && what.out.count > 0) add(sent, what.to, what.out);
  if (directly.in && what.in.count > 0) add(received, what.from, what.in);
  if (used.size() == 2 && used[0] == used[1]) {
    used.pop_back();
    used[0]->exchange(sent, received);
  } else {
    if (!sent.empty()) used.front()->exchange(sent, {});
    if (!received.empty()) used.back()->exchange({}, received);
  }
  move_through_host(what, directly);
  if (!used.empty()) finish(used, std::move(memory));
}

void NcclBackend::move(const Messages& what) {
  narrow_to(partners(what));
  const auto may_go = [&](int peer, const Buffer& data) {
    return peer != nobody && is_on_gpu(data) && link_to(peer).may_serve(data.device);
  };
  const Directly possible = {may_go(what.to, what.out), may_go(what.from, what.in)};
  if (are_on_two_gpus(what) || (!possible.out && !possible.in))
    return move_through_host(what, {});
  Directly directly = host_->agree(what, possible);
  connect_pairs(what, directly);
  if ((what.to != nobody && !directly.out) || (what.from != nobody && !directly.in))
    host_->skip_agreement();
  move_directly(what, directly);
}

}  // namespace booster
