#include "kernels/call_trace.h"

#include "kernels/device/cuda_module.h"

#include <cstdio>
#include <cstring>

namespace booster::kernels {

namespace {

constexpr const char* unary_names[] = {
#define UNARY(name, ...) #name,
#include "kernels/elementwise.def"
};
constexpr const char* binary_names[] = {
#define BINARY(name, ...) #name,
#include "kernels/elementwise.def"
};
constexpr const char* compare_names[] = {
#define COMPARE(name, ...) #name,
#include "kernels/elementwise.def"
};
constexpr const char* reduce_names[] = {"sum", "mean", "amax", "amin", "any", "all"};

double elements(const View& view) { return static_cast<double>(view.size()); }

// Returns the elements in memory: a broadcast dimension counts as one.
double stored_elements(const View& view) {
  double count = 1;
  for (int i = 0; i < view.ndim; ++i)
    if (view.strides[i] != 0) count *= static_cast<double>(view.shape[i]);
  return count;
}

using Views = const View* const*;

double flop_of_sums(const View& out, int64_t terms) {
  return 2 * elements(out) * static_cast<double>(terms);
}
double product_flop(Views v) { return flop_of_sums(*v[0], v[1]->columns()); }

// Returns a convolution's FLOPs: it multiplies each pixel of its output side with the weights of
// one output channel.
double convolution_flop(const View& outer, const View& weight) {
  return weight.shape[0]
             ? 2 * elements(outer) * elements(weight) / static_cast<double>(weight.shape[0])
             : 0;
}

double attention_flop(const View& q, const View& k) {
  return 4 * elements(q) * static_cast<double>(k.shape[2]);
}

struct FlopRule {
  const char* kernel;
  int views;  // used by the formula
  double (*flop)(Views);
};
constexpr FlopRule flop_rules[] = {
    {"matmul", 2, product_flop},
    {"linear", 2, product_flop},
    {"matmul_loop", 2, product_flop},
    {"linear_backward_weight", 4, [](Views v) { return flop_of_sums(*v[0], v[2]->rows()); }},
    {"fp8_matmul", 2, product_flop},
    {"conv2d", 3, [](Views v) { return convolution_flop(*v[0], *v[2]); }},
    {"conv2d_backward_input", 3, [](Views v) { return convolution_flop(*v[1], *v[2]); }},
    {"conv2d_backward_weight", 3, [](Views v) { return convolution_flop(*v[2], *v[0]); }},
    {"attention", 4, [](Views v) { return attention_flop(*v[2], *v[3]); }},
    {"attention_few_queries", 3, [](Views v) { return attention_flop(*v[1], *v[2]); }},
    {"attention_backward", 6, [](Views v) { return 2 * attention_flop(*v[4], *v[5]); }},
};

double flop_of(const char* kernel, Views views, int count) {
  for (const FlopRule& rule : flop_rules)
    if (count >= rule.views && std::strcmp(rule.kernel, kernel) == 0) return rule.flop(views);
  return 0;
}

thread_local int depth = 0;  // > 1 in a kernel called by a kernel

}  // namespace

CallTrace::CallTrace(const char* kernel, DeviceType device)
    : span_{.name = kernel, .kind = SpanKind::kernel}, is_on_gpu_(device == DeviceType::cuda) {
  ++depth;
}

CallTrace::~CallTrace() {
  if (--depth > 0) return;
  if (span_.gpu_time >= 0) cuda_module()->end_time(span_.gpu_time);
  if (marker_) marker_->pop();
  tell(span_);
}

void CallTrace::see(const View& view) {
  if (count_ < most_views) views_[count_++] = &view;
  if (!view.data) return;
  span_.bytes += stored_elements(view) * static_cast<double>(size_of(view.dtype));
  if (view.size() < largest_) return;
  largest_ = view.size();
  span_.dtype = booster::name_of(view.dtype);
}

void CallTrace::see(const MultiTensor& tensors) {
  for (int64_t i = 0; i < tensors.count; ++i)
    span_.bytes += static_cast<double>(tensors.spans[i].size * size_of(tensors.spans[i].dtype));
  if (tensors.count > 0) span_.dtype = booster::name_of(tensors.spans[0].dtype);
}

// Counts values and states as read and written, gradients as read, and copies as written.
void CallTrace::see(const OptimizerSlots& slots) {
  for (int64_t i = 0; i < slots.count; ++i) {
    const OptimizerSlot& slot = slots.slots[i];
    const int64_t value = size_of(slot.value_dtype);
    const int64_t states = (slot.state1 ? 1 : 0) + (slot.state2 ? 1 : 0) + (slot.state3 ? 1 : 0);
    const int64_t each = 2 * value * (1 + states) + size_of(slot.grad_dtype) +
                         (slot.copy ? size_of(slot.copy_dtype) : 0);
    span_.bytes += static_cast<double>(slot.size * each);
  }
  if (slots.count > 0) span_.dtype = booster::name_of(slots.slots[0].value_dtype);
}

void CallTrace::see(UnaryOp op) { span_.detail = unary_names[static_cast<int>(op)]; }
void CallTrace::see(BinaryOp op) { span_.detail = binary_names[static_cast<int>(op)]; }
void CallTrace::see(CompareOp op) { span_.detail = compare_names[static_cast<int>(op)]; }
void CallTrace::see(ReduceOp op) { span_.detail = reduce_names[static_cast<int>(op)]; }

void CallTrace::begin() {
  span_.flop = flop_of(span_.name, views_, count_);
  if (depth == 1) mark();
  span_.begin = trace_clock();
}

void CallTrace::mark() {
  marker_ = range_marker.load(std::memory_order_acquire);
  if (marker_) {
    char name[64];  // a tool copies it
    std::snprintf(name, sizeof name, "%s%s%s", span_.name, *span_.detail ? " " : "", span_.detail);
    marker_->push(name);
  }
  if (is_on_gpu_ && gpu_times_wanted.load(std::memory_order_relaxed))
    span_.gpu_time = cuda_module()->begin_time();
}

}  // namespace booster::kernels
