#include "kernels/cpu/primitive.h"

#include "kernels/catalogue.h"
#include "kernels/cpu/library.h"
#include "kernels/host/host_memory.h"
#include "platform/error.h"

#include <atomic>
#include <utility>

namespace booster::kernels::cpu {

namespace {

std::atomic<int64_t> bytes_kept = 0;  // by all threads

// Grows in steps of a quarter so that slowly growing shapes do not allocate on every call.
class ScratchBuffer {
 public:
  ScratchBuffer() = default;
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;
  ~ScratchBuffer() { drop(); }

  void* reserve(size_t bytes) {
    if (bytes > bytes_) grow(bytes + bytes / 4);
    return data_;
  }

 private:
  void grow(size_t bytes) {
    drop();
    data_ = allocate_scratch(bytes);
    bytes_ = bytes;
    bytes_kept += static_cast<int64_t>(bytes);
  }
  void drop() {
    free_host(data_);
    bytes_kept -= static_cast<int64_t>(std::exchange(bytes_, 0));
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

dnnl_stream_t this_thread_stream() {
  thread_local dnnl::stream stream(engine());
  return stream.get();
}

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: primitives in thread_local caches may outlive static objects. Chooses the CPU
  // variant first, because it limits oneDNN's instruction set.
  static const auto& engine = (cpu_variant(), *new dnnl::engine(dnnl::engine::kind::cpu, 0));
  return engine;
}

dnnl::memory::data_type library_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::f16: return dnnl::memory::data_type::f16;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::i32: return dnnl::memory::data_type::s32;
    default: return dnnl::memory::data_type::undef;
  }
}

dnnl::primitive_attr default_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory::desc describe(const View& view) {
  return {dnnl::memory::dims(view.shape, view.shape + view.ndim), library_type(view.dtype),
          dnnl::memory::dims(view.strides, view.strides + view.ndim)};
}

dnnl::memory::desc any_layout(const View& view) {
  return {dnnl::memory::dims(view.shape, view.shape + view.ndim), library_type(view.dtype),
          dnnl::memory::format_tag::any};
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                 const dnnl::memory::desc& library_side)
    : bytes_(library_side.get_size()) {
  if (from == to) return;
  const dnnl::reorder::primitive_desc plan(engine(), from, engine(), to, default_attributes());
  primitive_ = Primitive(dnnl::reorder(plan), plan.scratchpad_desc(),
                         {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Primitive::Primitive(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                     std::initializer_list<Argument> arguments)
    : primitive_(primitive), scratch_bytes_(scratchpad.get_size()) {
  const auto add = [&](const Argument& argument) {
    memories_[count_] = dnnl::memory(argument.layout, engine(), nullptr);
    arguments_[count_] = {argument.role, memories_[count_].get()};
    ++count_;
  };
  add({DNNL_ARG_SCRATCHPAD, scratchpad});
  for (const auto& argument : arguments) add(argument);
}

void Primitive::operator()(std::initializer_list<void*> data) {
  const auto set = [&](int i, void* pointer) {
    dnnl_memory_set_data_handle(arguments_[i].memory, pointer);
  };
  int i = 0;
  set(i++, scratch_bytes_ ? scratch(ScratchUse::library, scratch_bytes_) : nullptr);
  for (void* pointer : data) set(i++, pointer);
  const auto status =
      dnnl_primitive_execute(primitive_.get(), this_thread_stream(), count_, arguments_.data());
  if (status != dnnl_success) fail_run("oneDNN: a primitive failed; got status {}", int(status));
}

int64_t scratch_bytes() { return bytes_kept.load(std::memory_order_relaxed); }

void* scratch(ScratchUse use, size_t bytes) {
  thread_local ScratchBuffer buffers[static_cast<int>(ScratchUse::count)];
  return buffers[static_cast<int>(use)].reserve(bytes);
}

View scratch_view(ScratchUse use, DType dtype, const View& shape) {
  View view = shape;
  view.dtype = dtype;
  view.data = scratch(use, shape.size() * size_of(dtype));
  int64_t stride = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

View copied(ScratchUse use, DType dtype, const View& from) {
  const View to = scratch_view(use, dtype, from);
  on({}).copy(to, from);
  return to;
}

View transposed(View view) {
  std::swap(view.shape[view.ndim - 2], view.shape[view.ndim - 1]);
  std::swap(view.strides[view.ndim - 2], view.strides[view.ndim - 1]);
  return view;
}

}  // namespace booster::kernels::cpu
