#include "core/tensor/absence.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/tensor.h"
#include "core/tensor/work_recorder.h"

#include <new>

namespace booster {

Storage::Storage(Device on, int64_t size)
    : bytes(size), device(on), tag(current_memory_tag()) {
  data = allocate(on, static_cast<size_t>(size), tag);
  if (WorkRecorder* recorder = WorkRecorder::current()) [[unlikely]] recorder->made(*this);
}

Storage::Storage(Device on, void* memory, int64_t size, std::function<void()> owner)
    : data(memory), bytes(size), device(on), on_release(std::move(owner)) {
  if (!on_release) on_release = [] {};
}

Storage::Storage(Device on, int64_t size, std::unique_ptr<Absence> why)
    : bytes(size), device(on), tag(current_memory_tag()), absence(std::move(why)) {}

Storage::~Storage() {
  if (maker) [[unlikely]] maker->gone(*this);
  if (on_release) on_release();
  else if (has_memory()) release(device, data, static_cast<size_t>(bytes), tag);
}

void set_memory_tag(const Tensor& x, MemoryTag tag) {
  if (!x.defined()) return;
  Storage& storage = *x.body()->storage;
  if (storage.on_release || storage.tag == tag) return;
  if (storage.has_memory())
    retag(storage.device, static_cast<size_t>(storage.bytes), storage.tag, tag);
  storage.tag = tag;
}

namespace {

// Every op creates and frees bodies, so each thread keeps freed ones for reuse.
class BodyCache {
 public:
  ~BodyCache() {
    closed_ = true;
    while (void* body = pop()) ::operator delete(body);
  }
  void* pop() {
    Link* link = first_;
    if (!link) return nullptr;
    first_ = link->next;
    --count_;
    return link;
  }
  bool push(void* body) {
    if (closed_ || count_ == most) return false;
    first_ = new (body) Link{first_};
    ++count_;
    return true;
  }

 private:
  struct Link {
    Link* next;
  };
  static constexpr int most = 4096;
  Link* first_ = nullptr;
  int count_ = 0;
  bool closed_ = false;
};

thread_local BodyCache body_cache;

}  // namespace

void* TensorBody::operator new(size_t bytes) {
  void* body = body_cache.pop();
  return body ? body : ::operator new(bytes);
}

void TensorBody::operator delete(void* body) {
  if (!body_cache.push(body)) ::operator delete(body);
}

}  // namespace booster
