// A Gloo device, lent to one group at a time.
//
// A device has a thread and, in Gloo of 2023, one port for all connections. If a client connects
// there and sends nothing, an operation waits for it and keeps a reference to the thread's loop. If
// a device is destroyed during that wait, its thread holds the last reference: it joins itself and
// ends the process. Any port scanner could cause that. So devices are never destroyed; a device
// that a group has finished with serves the next group at the same address.
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace booster {

class GlooDevice {
 public:
  // `address` is this machine's, in digits. Thread-safe.
  explicit GlooDevice(std::string address);
  // Everything that the device made must be destroyed first.
  ~GlooDevice();
  GlooDevice(const GlooDevice&) = delete;
  gloo::transport::Device* operator->() const { return device_.get(); }

 private:
  std::string address_;
  std::shared_ptr<gloo::transport::Device> device_;
};

}  // namespace booster
