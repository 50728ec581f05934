// A setting whose value differs between the saved training and the one that resumes it.
#pragma once

#include <string>

namespace booster {

// As text: "optimizer.lr", "0.001", "0.5".
struct SettingChange {
  std::string name, before, now;
};

}  // namespace booster
