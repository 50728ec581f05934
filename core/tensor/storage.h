// Storage and TensorBody: the objects to which a Tensor's handle refers. Programs use tensor.h;
// this header is for the library, whose inline accessors of tensors need it.
//
// Reference counts are atomic. Otherwise a tensor's rule holds: one thread at a time.
#pragma once

#include "core/tensor/memory/memory_report.h"
#include "core/tensor/shape.h"
#include "kernels/arguments/view.h"
#include "platform/error.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace booster {

// Base of objects that References count.
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

// An intrusive counted reference: one word, one allocation.
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

// A shared pointer for handles such as Optimizer. The use of one that was moved from is an error
// instead of a crash. As thread-safe as std::shared_ptr.
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

class Absence;
class WorkRecorder;  // core/tensor/work_recorder.h

// Memory that tensors share. `version` counts in-place changes, so that a gradient formula can
// detect a changed saved value.
struct Storage : Counted {
  Storage(Device device, int64_t bytes);
  // Makes a storage that has no memory yet.
  Storage(Device device, int64_t bytes, std::unique_ptr<Absence> absence);
  // Wraps memory owned by the caller. Calls `owner` when the last tensor releases it.
  Storage(Device device, void* data, int64_t bytes, std::function<void()> owner);
  ~Storage() override;

  bool has_memory() const { return data || bytes == 0; }
  // Allocates its memory and writes its initial values. Throws if the memory is kept away.
  void use();

  void* data = nullptr;
  int64_t bytes = 0;
  Device device;
  MemoryTag tag = MemoryTag::other;
  uint32_t version = 0;
  std::function<void()> on_release;  // empty for memory of the allocator
  std::unique_ptr<Absence> absence;  // absence.h; null if it has memory
  WorkRecorder* maker = nullptr;     // recorder of the work that made it, until recorded
};

// Number of threads that are recording work (core/tensor/capture). The two functions below report
// uses and changes to their recorders.
extern std::atomic<int> recording_threads;
void note_use(const Reference<Storage>& storage);
void note_change(const Reference<Storage>& storage);

class Tensor;

// Effect of an in-place call on its target: kept * target + added * source.
struct InPlaceCall {
  const char* name;
  double kept, added;
};

// Autograd's state of a tensor; core/autograd derives from it.
struct Tracking {
  virtual ~Tracking() = default;
  virtual bool is_leaf() const = 0;
  // Records a call if gradients are on. This state belongs to the target or the source; a call
  // without a source passes an undefined one.
  virtual void record(const Tensor& target, const Tensor& source,
                      const InPlaceCall& call) const = 0;
  bool requires_grad = false;
};

struct TensorBody : Counted {
  static void* operator new(size_t bytes);
  static void operator delete(void* body);

  Reference<Storage> storage;
  int64_t offset = 0;  // in elements
  Shape shape;
  Shape strides;
  DType dtype = DType::f32;
  bool is_detached = false;  // by detach(): a write to it does not affect other tapes
  std::unique_ptr<Tracking> tracking;
};

}  // namespace booster
