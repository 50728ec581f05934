#include "core/optim/optimizer.h"

#include "platform/error.h"

namespace booster {

GroupOptions::GroupOptions(std::initializer_list<Named> options) {
  for (const auto& [name, value] : options) {
    const bool pair = name == "betas";
    const auto& numbers = value.numbers();
    check(numbers.size() == (pair ? 2u : 1u), "options of a group: {}: got {}, want {}", name,
          pair ? "one number" : "two numbers", pair ? "two, as {0.9, 0.999}" : "one");
    add(pair ? "beta1" : name, numbers[0]);
    if (pair) add("beta2", numbers[1]);
  }
}

void GroupOptions::add(const std::string& name, double number) {
  check(numbers_.emplace(name, number).second, "options of a group: {} occurs twice; want it once",
        name);
}

}  // namespace booster
