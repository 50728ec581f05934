// The NCCL communicator between some members of a group, which is made when they first need it:
// they tell each other, through the host, which GPU each has and which NCCL. The communicator's id
// goes by the rendezvous. For one thread at a time.
#pragma once

#include "kernels/device/communicator.h"
#include "parallel/backends/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class GpuLink {
 public:
  // `ranks` of the group that `host` connects: all of them or two, rising, own rank among them.
  GpuLink(Backend& host, std::vector<int> ranks);

  // Whether memory on this device may go by it: so far, as long as nobody has asked for it.
  bool may_serve(Device device) const { return !is_known_ || (communicator_ && device_ == device); }
  // All its ranks call it, each with its device. The communicator, which may still be connecting;
  // null if there can be none.
  kernels::Communicator* connect(Device device);
  // Null before connect().
  kernels::Communicator* communicator() const { return communicator_.get(); }
  // Why there can be none; "" if there can.
  const std::string& obstacle() const { return obstacle_; }
  // The place of a rank of the group among `ranks`.
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

// NCCL's version here, such as 22809; 0 if there is none, and why.
struct NcclHere {
  int version = 0;
  std::string missing;
};
NcclHere nccl_here();
// "2.28.9" for 22809.
std::string nccl_version(int version);

}  // namespace booster
