// A setting of a training that goes on with another value than it was saved with.
#pragma once

#include <string>

namespace booster {

// As text: "optimizer.lr", "0.001", "0.5".
struct SettingChange {
  std::string name, before, now;
};

}  // namespace booster
