// The options of a parameter group, under the names of the options structs. Where a struct takes a
// pair (betas of Adam, AdamW, LAMB), so does a group.
//
//   AdamW({{body.parameters()}, {head.parameters(), {{"lr", 1e-2}, {"betas", {0.9, 0.95}}}}})
//
// The optimizer keeps each number under its own name: "betas" becomes "beta1" and "beta2". A group
// accepts those names too.
#pragma once

#include "core/optim/update_rule.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class GroupOptions {
 public:
  // A number, a flag, or a pair.
  class Value {
   public:
    Value(double one) : numbers_{one} {}
    Value(double first, double second) : numbers_{first, second} {}
    Value(std::pair<double, double> two) : numbers_{two.first, two.second} {}
    const std::vector<double>& numbers() const { return numbers_; }

   private:
    std::vector<double> numbers_;
  };
  struct Named {
    std::string name;
    Value value;
  };

  GroupOptions() = default;
  GroupOptions(OptimizerOptions numbers) : numbers_(std::move(numbers)) {}
  // Throws if an option is given twice, if betas are not two, or if another option has two numbers.
  GroupOptions(std::initializer_list<Named> options);
  // The options under the optimizer's own names.
  const OptimizerOptions& numbers() const { return numbers_; }

 private:
  void add(const std::string& name, double number);
  OptimizerOptions numbers_;
};

}  // namespace booster
