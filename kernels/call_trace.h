// The span of one kernel call, made from its arguments. Only the catalogue uses it, while there is
// a listener. A kernel called by another kernel is part of the caller's span.
#pragma once

#include "kernels/arguments/multi_tensor.h"
#include "kernels/arguments/view.h"
#include "platform/trace.h"

namespace booster::kernels {

enum class UnaryOp : uint8_t;
enum class BinaryOp : uint8_t;
enum class CompareOp : uint8_t;
enum class ReduceOp : uint8_t;

// FLOPs count a product as 2 m n k. Attention counts its matrix products without a mask. Its
// backward pass counts as twice the forward pass, so recomputing the probabilities costs time but
// is not counted as work. Bytes count each operand once, a broadcast one at its true size.
class CallTrace {
 public:
  CallTrace(const char* kernel, DeviceType device);
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  // Records an argument. Call it for all in order, then begin().
  void see(const View& view);
  void see(const MultiTensor& tensors);
  void see(const OptimizerSlots& slots);
  void see(UnaryOp op);
  void see(BinaryOp op);
  void see(CompareOp op);
  void see(ReduceOp op);
  template <class T>
  void see(const T&) {}
  void begin();

 private:
  static constexpr int most_views = 12;  // attention_backward's, and one more

  void mark();

  Span span_;
  const RangeMarker* marker_ = nullptr;  // the marker that received the begin
  bool is_on_gpu_;
  const View* views_[most_views] = {};
  int count_ = 0;
  int64_t largest_ = -1;
};

}  // namespace booster::kernels
