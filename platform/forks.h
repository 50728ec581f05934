// Children of fork(). A child has a copy of all objects but only the thread that forked, so an
// object with threads of its own neither works nor can be destroyed there. Thread-safe.
#pragma once

#include <memory>
#include <utility>

namespace booster {

// Returns how many forks lie between the program's start and this process. An object whose
// constructor saw another number belongs to another process.
int fork_count();

// Like make_shared, but a child of fork leaves the object alone: it would wait for threads that it
// does not have, and remove files that the parent still uses.
template <class T, class... Args>
std::shared_ptr<T> make_shared_here(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [here = fork_count()](T* object) {
    if (here == fork_count()) delete object;
  });
}

}  // namespace booster
