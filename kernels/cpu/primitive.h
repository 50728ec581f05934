// A reusable oneDNN primitive. It creates its memory objects once and only changes their pointers,
// so a call allocates nothing. Also the per-thread working memory of library calls and conversions.
//
// All of it belongs to one thread: keep primitives and scratch in thread_local variables or on the
// stack. (oneDNN itself shares the generated code of equal primitives between threads.)
#pragma once

#include "kernels/arguments/view.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

namespace booster::kernels::cpu {

const dnnl::engine& engine();

// Returns oneDNN's type of f32, f16, bf16 or i32; it never gets other dtypes.
dnnl::memory::data_type library_type(DType dtype);

// Returns the attributes of every primitive: the caller provides the scratchpad.
dnnl::primitive_attr default_attributes();

// Describes the view with its own sizes and strides.
dnnl::memory::desc describe(const View& view);
// Describes the view's sizes in the layout that the library prefers.
dnnl::memory::desc any_layout(const View& view);

// Returns true if oneDNN has no implementation, or only its reference code (1000 times slower).
template <class Plan>
bool is_reference(const Plan& plan) {
  return !plan || std::string_view(plan.impl_info_str()).starts_with("ref");
}

struct Argument {
  int role;  // DNNL_ARG_...
  dnnl::memory::desc layout;
};

class Primitive {
 public:
  // Makes an empty one: "the library cannot do this well".
  Primitive() = default;
  Primitive(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<Argument> arguments);

  explicit operator bool() const { return count_ > 0; }

  // Runs on `data`, one pointer per argument in the constructor's order; returns when done.
  void operator()(std::initializer_list<void*> data);

 private:
  static constexpr int max_arguments = 6;

  dnnl::primitive primitive_;
  std::array<dnnl::memory, max_arguments> memories_;
  std::array<dnnl_exec_arg_t, max_arguments> arguments_ = {};
  size_t scratch_bytes_ = 0;
  int count_ = 0;
};

// Buffers that one kernel call may use at the same time: operands converted to another dtype or
// layout, the same in the library's own layout, and the library's working memory.
enum class ScratchUse {
  left,
  right,
  result,
  bias,
  mirrored,
  columns,
  decoded_left,
  decoded_right,
  decoded_result,
  library_left,
  library_right,
  library_result,
  library,
  count
};

// Returns at least `bytes` of this thread's memory for `use`, 64-byte aligned, valid until the
// thread requests the same use again. It grows to the largest size and is kept, so training in
// steady state allocates nothing.
void* scratch(ScratchUse use, size_t bytes);

// Converts a tensor between the caller's layout and the library's own; empty if they agree.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
          const dnnl::memory::desc& library_side);

  // Returns the library's memory for this tensor: the caller's own, or scratch.
  void* place(ScratchUse use, void* data) const { return primitive_ ? scratch(use, bytes_) : data; }
  void run(void* from, void* to) {
    if (primitive_) primitive_({from, to});
  }

 private:
  Primitive primitive_;
  size_t bytes_ = 0;
};

// Returns a contiguous tensor in scratch memory with the sizes of `shape`.
View scratch_view(ScratchUse use, DType dtype, const View& shape);

// Copies `from` into such a tensor.
View copied(ScratchUse use, DType dtype, const View& from);

// Exchanges rows and columns of a matrix, or of a batch of them, in the same memory.
View transposed(View view);

// Prepared calls (a Primitive, or several that belong together) by key. Key is plain data without
// padding; equal bytes mean equal calls. A full cache is cleared, which limits its size if shapes
// never repeat.
template <class Key, class Call>
class CallCache {
 public:
  template <class Make>
  Call& find(const Key& key, Make&& make) {
    const auto found = calls_.find(key);
    if (found != calls_.end()) [[likely]]
      return found->second;
    if (calls_.size() >= capacity) calls_.clear();
    return calls_.emplace(key, make()).first->second;
  }

 private:
  static constexpr size_t capacity = 1024;

  struct Hash {
    size_t operator()(const Key& key) const {
      static_assert(sizeof(Key) % sizeof(uint64_t) == 0);
      uint64_t words[sizeof(Key) / sizeof(uint64_t)];
      std::memcpy(words, &key, sizeof(Key));
      uint64_t hash = 0;
      for (const uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15 + (hash >> 29);
      return hash ^ (hash >> 32);
    }
  };
  struct Equal {
    bool operator()(const Key& a, const Key& b) const {
      return std::memcmp(&a, &b, sizeof(Key)) == 0;
    }
  };
  std::unordered_map<Key, Call, Hash, Equal> calls_;
};

}  // namespace booster::kernels::cpu
