#include "parallel/backends/gloo_device.h"

#include "platform/blocked_signals.h"

#include <gloo/transport/tcp/device.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace booster {
namespace {

struct Idle {
  std::mutex mutex;
  std::map<std::string, std::vector<std::shared_ptr<gloo::transport::Device>>> at_address;
};

// Never destroyed, not even at the end of the process.
Idle& idle() {
  static Idle& devices = *new Idle;
  return devices;
}

}  // namespace

GlooDevice::GlooDevice(std::string address) : address_(std::move(address)) {
  {
    const std::lock_guard lock(idle().mutex);
    auto& devices = idle().at_address[address_];
    if (!devices.empty()) {
      device_ = std::move(devices.back());
      devices.pop_back();
      return;
    }
  }
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address_;
  // For the device's thread: a write to a dead peer must not end the process.
  const kernels::BlockedSignals guard;
  device_ = gloo::transport::tcp::CreateDevice(attributes);
}

GlooDevice::~GlooDevice() {
  const std::lock_guard lock(idle().mutex);
  idle().at_address[address_].push_back(std::move(device_));
}

}  // namespace booster
