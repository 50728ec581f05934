// The NCCL communicator between some members of a group, made on first use. The members first
// exchange, through the host, their GPUs and NCCL versions. The rendezvous distributes the
// communicator's id. For one thread at a time.
#pragma once

#include "kernels/device/communicator.h"
#include "parallel/backends/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class GpuLink {
 public:
  // `ranks` are all ranks of the group that `host` connects, or two of them; ascending, including
  // this rank.
  GpuLink(Backend& host, std::vector<int> ranks);

  // Returns whether memory on this device may use it; true until the first connect() decides.
  bool may_serve(Device device) const { return !is_known_ || (communicator_ && device_ == device); }
  // Returns the communicator, which may still be connecting; null if none is possible. All its
  // ranks call it, each with its device.
  kernels::Communicator* connect(Device device);
  // Null before connect().
  kernels::Communicator* communicator() const { return communicator_.get(); }
  // Returns why no communicator is possible; "" if one is.
  const std::string& obstacle() const { return obstacle_; }
  // Returns the index of a rank of the group in `ranks`.
  int place_of(int group_rank) const;

 private:
  struct Card;
  std::vector<Card> exchange_cards(const Card& own);
  std::string obstacle_among(const std::vector<Card>& cards) const;
  std::string id();

  Backend& host_;
  std::vector<int> ranks_;
  Device device_;
  bool is_known_ = false;
  std::string obstacle_;
  std::unique_ptr<kernels::Communicator> communicator_;
};

// This machine's NCCL version, such as 22809; 0 and the reason if there is none.
struct NcclHere {
  int version = 0;
  std::string missing;
};
NcclHere nccl_here();
// Returns "2.28.9" for 22809.
std::string nccl_version(int version);

}  // namespace booster
