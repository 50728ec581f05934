// The options of a parameter group under the names that the options structs have: where those take
// a pair (betas of Adam, AdamW, LAMB), so does a group.
//
//   AdamW({{body.parameters()}, {head.parameters(), {{"lr", 1e-2}, {"betas", {0.9, 0.95}}}}})
//
// The optimizer keeps each number under a name of its own: "betas" becomes "beta1" and "beta2",
// which a group may be given as well.
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
  // Errors: an option given twice, betas that are not two, two numbers for another option.
  GroupOptions(std::initializer_list<Named> options);
  // By the optimizer's own names.
  const OptimizerOptions& numbers() const { return numbers_; }

 private:
  void add(const std::string& name, double number);
  OptimizerOptions numbers_;
};

}  // namespace booster
