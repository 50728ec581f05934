// Shared by the systems with torch's op names. Only explain_torch.cpp and explain_apex.cpp need
// this.
#pragma once

#include "tools/explain/explain_systems.h"

namespace booster {

// Finds ops by torch's names; derived systems define the effect of the lists.
class TorchNamed : public System {
 public:
  KnownOp find(const std::string& op) const override;

 protected:
  // Sets a named op's class and list.
  virtual void classify(KnownOp&) const {}
  // Returns Returns "add_" for "add": the result stays in the first argument's memory and dtype.
  virtual KnownOp in_place(const std::string& base) const;
};

// Does not cast ops; `why` gives the reason.
class Uncast final : public TorchNamed {
 public:
  Uncast(std::string why, DeviceType device_type) : why_(std::move(why)) { device = device_type; }
  KnownOp find(const std::string& op) const override;

 private:
  std::string why_;
};

// Makes a system in which `who` converts a model and its inputs to `dtype` once.
std::unique_ptr<System> make_whole_model_system(const std::string& who, NumberType dtype,
                                                bool keeps_batch_norm, DeviceType device);

}  // namespace booster
