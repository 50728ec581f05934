#include "parallel/backends/gpu_link.h"

#include "kernels/device/cuda_module.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace booster {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(const std::string& text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return bytes;
}

const kernels::Collectives& collectives(Device device) {
  return *kernels::cuda_module_for(device).collectives;
}

}  // namespace

NcclHere nccl_here() {
  const kernels::CudaModule* module = kernels::cuda_module();
  if (!module) return {0, kernels::why_no_cuda_module()};
  if (!module->collectives) return {0, "the CUDA module was built without nccl.h"};
  return {module->collectives->version(), module->collectives->missing()};
}

std::string nccl_version(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// A rank's GPU and NCCL; sent between ranks as its bytes in memory.
struct GpuLink::Card {
  std::array<std::byte, 16> gpu = {};
  int32_t version = 0;
  char missing[108] = {};  // truncated to fit
};

GpuLink::GpuLink(Backend& host, std::vector<int> ranks) : host_(host), ranks_(std::move(ranks)) {}

int GpuLink::place_of(int group_rank) const {
  return static_cast<int>(std::ranges::find(ranks_, group_rank) - ranks_.begin());
}

std::vector<GpuLink::Card> GpuLink::exchange_cards(const Card& own) {
  const auto bytes = [](const Card* cards, size_t count) {
    return Buffer(const_cast<Card*>(cards), static_cast<int64_t>(count * sizeof(Card)), DType::u8);
  };
  std::vector<Card> all(ranks_.size(), own);
  const int rank = host_.members().rank, size = host_.members().size();
  if (static_cast<int>(ranks_.size()) == size) {
    host_.all_gather(bytes(all.data(), all.size()), bytes(&own, 1));
  } else {
    const int other = ranks_[0] == rank ? 1 : 0;
    host_.send_receive(bytes(&own, 1), ranks_[other], bytes(&all[other], 1), ranks_[other]);
  }
  return all;
}

std::string GpuLink::obstacle_among(const std::vector<Card>& cards) const {
  const auto name = [&](size_t place) { return host_.members().name_of(ranks_[place]); };
  for (size_t i = 0; i < cards.size(); ++i)
    if (cards[i].version == 0) return fmt::format("{} has no NCCL: {}", name(i), cards[i].missing);
  for (size_t i = 1; i < cards.size(); ++i) {
    if (cards[i].version != cards[0].version)
      return fmt::format("{} has NCCL {}, {} has {}", name(0), nccl_version(cards[0].version),
                         name(i), nccl_version(cards[i].version));
    for (size_t j = 0; j < i; ++j)
      if (cards[i].gpu == cards[j].gpu)
        return fmt::format("{} and {} use the same GPU", name(j), name(i));
  }
  return "";
}

std::string GpuLink::id() {
  const Membership& members = host_.members();
  const bool are_all = static_cast<int>(ranks_.size()) == members.size();
  const std::string key = are_all
                              ? members.name + ".nccl"
                              : fmt::format("{}.nccl-{}_{}", members.name, ranks_[0], ranks_[1]);
  if (members.rank == ranks_[0]) members.rendezvous->put(key, hex(collectives(device_).make_id()));
  std::vector<int> world_ranks;
  for (const int rank : ranks_) world_ranks.push_back(members.ranks[rank]);
  return from_hex(members.rendezvous->get(key, world_ranks));
}

kernels::Communicator* GpuLink::connect(Device device) {
  if (is_known_) return communicator_.get();
  const NcclHere here = nccl_here();
  Card own = {.version = here.version};
  std::strncpy(own.missing, here.missing.c_str(), sizeof own.missing - 1);
  if (here.version > 0) own.gpu = collectives(device).identify(device.index);
  obstacle_ = obstacle_among(exchange_cards(own));
  is_known_ = true;
  device_ = device;
  if (obstacle_.empty())
    communicator_ = collectives(device).connect(device.index, id(), place_of(host_.members().rank),
                                                static_cast<int>(ranks_.size()));
  return communicator_.get();
}

}  // namespace booster
