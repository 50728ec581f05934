// A shared pointer for handles such as Optimizer. The use of one that was moved from is an error
// instead of a crash. As thread-safe as std::shared_ptr.
#pragma once

#include "platform/error.h"

#include <cstddef>
#include <memory>

namespace booster {

template <size_t n>
struct HandleName {
  char text[n];
  consteval HandleName(const char (&name)[n]) {
    for (size_t i = 0; i < n; ++i) text[i] = name[i];
  }
};

// `name` is what users call the handle: Handle<Body, "optimizer">.
template <class T, HandleName name>
class Handle : public std::shared_ptr<T> {
 public:
  using std::shared_ptr<T>::shared_ptr;
  Handle() = default;
  Handle(std::shared_ptr<T> object) : std::shared_ptr<T>(std::move(object)) {}

  T* operator->() const { return &in(name.text); }
  T& operator*() const { return in(name.text); }
  // Returns the object; `call` begins the error if there is none.
  T& in(const char* call) const {
    if (!this->get()) [[unlikely]]
      fail("{}: this {} was moved from; want the one that it was moved to", call, name.text);
    return *this->get();
  }
};

}  // namespace booster
