// A device of Gloo, lent to one group after the other.
//
// A device has a thread and, in Gloo of 2023, one port for all who connect. Somebody who connects
// there and says nothing is waited for by an operation that holds the thread's loop; where a device
// is destroyed before that is over, its thread is the last to hold the loop, joins itself and ends
// the process: any port scanner could do that. So devices are never destroyed, and one that a group
// has done with serves the next at the same address.
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace booster {

class GlooDevice {
 public:
  // Of this machine's address, in digits. Thread-safe.
  explicit GlooDevice(std::string address);
  // Nothing that the device made may be left.
  ~GlooDevice();
  GlooDevice(const GlooDevice&) = delete;
  gloo::transport::Device* operator->() const { return device_.get(); }

 private:
  std::string address_;
  std::shared_ptr<gloo::transport::Device> device_;
};

}  // namespace booster
