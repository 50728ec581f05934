// copies_of: the factory of a product that is configured once and made several times.
#pragma once

#include <functional>
#include <memory>

namespace booster {

// Returns a function that makes copies of `first`.
template <class Base, class Derived>
std::function<std::unique_ptr<Base>()> copies_of(const Derived& first) {
  return [first = std::make_shared<const Derived>(first)] {
    return std::make_unique<Derived>(*first);
  };
}

}  // namespace booster
