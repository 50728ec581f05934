// An intrusive counted reference: one word, one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace booster {

class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  virtual ~Counted() = default;
  int64_t references() const { return count_.load(std::memory_order_acquire); }

 private:
  template <class T>
  friend class Reference;
  std::atomic<int64_t> count_ = 0;
};

template <class T>
class Reference {
 public:
  Reference() = default;
  explicit Reference(T* object) : object_(object) { add(); }
  Reference(const Reference& other) : object_(other.object_) { add(); }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class Derived>
  Reference(Reference<Derived>&& other) noexcept : object_(other.release()) {}
  Reference& operator=(Reference other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { drop(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Reference& a, const Reference& b) { return a.object_ == b.object_; }

  // Returns the object without changing its count.
  T* release() { return std::exchange(object_, nullptr); }

 private:
  void add() {
    if (object_) object_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() {
    if (object_ && object_->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object_;
  }
  T* object_ = nullptr;
};

}  // namespace booster
