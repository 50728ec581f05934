// Scaled dot-product attention of separate or packed queries, keys and values.
#include "core/autograd/composed_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/attention_method.h"
#include "kernels/catalogue.h"

#include <cmath>
#include <limits>

namespace booster {
namespace {

thread_local std::shared_ptr<const AttentionMethod> method_now;

std::shared_ptr<const AttentionMethod> current_method() {
  return method_now ? method_now : plain_attention();
}

AttentionCall call_for(const Tensor& q, const Tensor& k, const AttentionOptions& options,
                       const AttentionMethod& method) {
  arguments::probability("attention", "dropout", options.dropout);
  check(options.dropout < 1, "attention: dropout is out of range; got {}, want less than 1",
        options.dropout);
  const Shape scores = {q.size(0), q.size(1), q.size(2), k.size(2)};
  AttentionCall call{.mask = options.mask.defined() ? options.mask.detach() : Tensor(),
                     .scale = options.scale.value_or(1 / std::sqrt(double(q.size(3)))),
                     .dropout = options.dropout,
                     .causal = options.causal};
  if (const Tensor& mask = options.mask; mask.defined()) {
    if (broadcast_shapes("attention", mask.shape(), scores) != scores)
      fail("attention: mask does not broadcast to the scores; got {}, want {}", mask.shape(),
           scores);
    check(is_floating(mask.dtype()) || mask.dtype() == DType::boolean,
          "attention: mask has the wrong dtype; got {}, want a floating one (added) or bool (true "
          "for visible keys)",
          name_of(mask.dtype()));
    check(!mask.requires_grad() || &method == plain_attention().get(),
          "attention: mask requires a gradient, but ranks share the tokens; want a constant mask");
  }
  if (options.dropout > 0) {
    const int64_t each = (scores.numel() + 3) / 4 * 4;  // each run starts at a block of four
    call.position = default_generator().take(method.runs_of_keys() * each);
  }
  return call;
}

void check_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v})
    if (x->ndim() != 4)
      fail("attention: wrong number of dimensions; got {}, want (batch, heads, tokens, head size)",
           x->shape());
  const bool fits = q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3) &&
                    k.shape() == v.shape();
  if (!fits)
    fail(
        "attention: shapes differ; got q {}, k {}, v {}, want equal batch, heads and head size, "
        "and equally many keys and values",
        q.shape(), k.shape(), v.shape());
  arguments::same_dtype("attention", "k", k, q);
  arguments::same_dtype("attention", "v", v, q);
}

// Makes each head's values contiguous, as the kernels require.
Tensor dense_heads(const Tensor& x) {
  return x.strides()[3] == 1 || x.size(3) == 1 ? x : untracked::contiguous(x);
}

// As the kernels take them: first keys for each text.
kernels::VisibleKeys visible_keys(const Tensor& q, const AttentionCall& call) {
  if (!call.first_keys.defined()) return {call.causal};
  return {call.causal, untracked::expand(call.first_keys, {q.size(0), q.size(2)}).view()};
}

std::vector<SavedInput> inputs_of(std::initializer_list<Tensor> inputs) {
  std::vector<SavedInput> saved;
  for (const Tensor& x : inputs) saved.emplace_back(x);
  return saved;
}
std::vector<Tensor> values_of(const std::vector<SavedInput>& saved) {
  std::vector<Tensor> values;
  for (const SavedInput& x : saved) values.push_back(x);
  return values;
}

void check_alone(const AttentionMethod& method) {
  check(&method == plain_attention().get(),
        "attention: it cannot be differentiated twice while ranks share the tokens; want "
        "create_graph = false, or another sequence_parallelism_mode");
}

// Returns q, k or v (batch, heads, tokens, size) of qkv (batch, tokens, 3, heads, size).
Tensor part_of(const Tensor& qkv, int which) {
  return untracked::transpose(untracked::select(qkv, 2, which), 1, 2);
}

}  // namespace

namespace {

// The first key that each query sees by the options' window and documents: (batch or 1, tokens)
// i64, off the tape; undefined: 0.
Tensor first_keys(const AttentionOptions& options, int64_t batch, int64_t queries, int64_t keys,
                  Device device) {
  const Tensor& documents = options.documents;
  check(options.window >= 0, "attention: window is out of range; got {}, want 0 or more",
        options.window);
  const bool has_window = options.window > 0 && options.window < keys;
  if (options.window > 0 || documents.defined())
    check(options.causal, "attention: a window and documents need causal = true");
  if (!has_window && !documents.defined()) return {};
  const NoGradGuard no_grad;
  const PolicyScope inside(nullptr);
  Tensor first;
  if (documents.defined()) {
    if (documents.shape() != Shape{batch, keys} || queries != keys)
      fail("attention: documents have the wrong shape; got {}, want {}, one for each query and key",
           documents.shape(), Shape{batch, keys});
    first = document_starts(documents).to(device);
  }
  if (!has_window) return first;
  const Tensor place = unsqueeze(arange(queries).to(device), 0);
  const Tensor near = cast(clamp(place - double(options.window - 1), 0, {}), DType::i64);
  return first.defined() ? maximum(first, near) : near;
}

// The same as a mask, where the kernels cannot skip keys.
AttentionOptions with_first_keys_as_mask(AttentionOptions options, const Tensor& first,
                                         int64_t keys) {
  if (!first.defined()) return options;
  const NoGradGuard no_grad;
  const Tensor key = arange(keys).to(first.device());
  // (batch or 1, 1, queries, keys)
  const Tensor seen = greater_equal(key, reshape(first, {first.size(0), 1, first.size(1), 1}));
  options.mask =
      !options.mask.defined() ? seen
      : options.mask.dtype() == DType::boolean
          ? where(seen, options.mask, zeros_like(options.mask))
          : masked_fill(options.mask, equal(seen, 0.0), -std::numeric_limits<double>::infinity());
  return options;
}

// Replaces window and documents: on a CPU by the first keys, which this returns, else by the mask.
Tensor settle_visible_keys(AttentionOptions& options, const Tensor& q, int64_t queries,
                           int64_t keys) {
  const Tensor first = first_keys(options, q.size(0), queries, keys, q.device());
  options.window = 0;
  options.documents = {};
  const bool skips = q.device() == Device{} && current_method() == plain_attention() &&
                     !op_recorder && !(options.mask.defined() && options.mask.requires_grad());
  if (skips) return first;
  options = with_first_keys_as_mask(std::move(options), first, keys);
  return {};
}

// Computes attention with fewer heads of keys: one call for the first head of queries of each, one
// for the second, and so on. It copies only the result.
Tensor attention_of(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options, const Tensor& first);

Tensor grouped_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options, const Tensor& first) {
  const int64_t keys = k.size(1), each = q.size(1) / keys;
  check(!options.mask.defined() || options.mask.ndim() < 3 || options.mask.size(-3) == 1,
        "attention: the mask differs between heads, and keys have fewer heads than queries; got "
        "{}, want a mask for all heads",
        options.mask.defined() ? options.mask.shape() : Shape{});
  const Tensor groups = reshape(q, {q.size(0), keys, each, q.size(2), q.size(3)});
  std::vector<Tensor> results;
  for (int64_t i = 0; i < each; ++i)
    results.push_back(transpose(attention_of(select(groups, 2, i), k, v, options, first), 1, 2));
  // (batch, tokens, heads of keys, each, size)
  const Tensor joined = flatten(stack(results, 3), 2, 3);
  return transpose(joined, 1, 2);
}

}  // namespace

// Returns a tensor (batch, heads, tokens, size), stored as (batch, tokens, heads, size).
Tensor heads_like(const Tensor& x) {
  const Tensor memory =
      empty({x.size(0), x.size(2), x.size(1), x.size(3)}, {x.dtype(), x.device()});
  return untracked::transpose(memory, 1, 2);
}

std::shared_ptr<const AttentionMethod> plain_attention() {
  struct Plain : AttentionMethod {};
  static const auto plain = std::make_shared<Plain>();
  return plain;
}

void set_attention_method(std::shared_ptr<const AttentionMethod> method) {
  method_now = std::move(method);
}

AttentionResult AttentionMethod::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionCall& call) const {
  AttentionResult result{heads_like(q), empty({q.size(0), q.size(1), q.size(2), 2},
                                              {arguments::statistics_dtype(q), q.device()})};
  if (k.size(2) == 0) result.out.zero_();
  if (q.numel() == 0 || k.size(2) == 0) return result;
  kernels::on(q.device())
      .attention(result.out.view(), result.log_sum.view(), q.view(), k.view(), v.view(),
                 call.mask.view(), call.scale, visible_keys(q, call), call.dropout, call.position);
  return result;
}

// Computes the gradients, with p the probabilities and s the scores: dv = p^T g, dp = g v^T, ds = p
// (dp - sum over keys of g out), dq = scale ds k, dk = scale ds^T q.
void AttentionMethod::backward(const Tensor& dq, const Tensor& dk, const Tensor& dv,
                               const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionResult& result, const AttentionCall& call) const {
  if (q.numel() == 0 || k.numel() == 0) {
    for (Tensor d : {dq, dk, dv}) d.zero_();
    return;
  }
  kernels::on(g.device())
      .attention_backward(dq.view(), dk.view(), dv.view(), g.view(), q.view(), k.view(), v.view(),
                          result.out.view(), result.log_sum.view(), call.mask.view(), call.scale,
                          visible_keys(q, call), call.dropout, call.position);
}

Tensor document_starts(const Tensor& documents) {
  check(documents.ndim() == 2 && !is_floating(documents.dtype()),
        "document_starts: wrong documents; got {} of {}, want ids (batch, tokens), whole numbers",
        documents.shape(), name_of(documents.dtype()));
  std::vector<int64_t> ids = cast(documents, DType::i64).to({}).to_vector<int64_t>();
  const int64_t tokens = documents.size(1);
  std::vector<int64_t> starts(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<int64_t>(i) % tokens;
    starts[i] = at > 0 && ids[i] == ids[i - 1] ? starts[i - 1] : at;
  }
  return from_vector(starts, documents.shape()).to(documents.device());
}

namespace {

// With `first` as in first_keys.
Tensor attention_of(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options, const Tensor& first) {
  check_heads(q, k, v);
  const auto method = current_method();
  AttentionCall call = call_for(q, k, options, *method);
  call.first_keys = first;
  const Tensor dense_q = dense_heads(q), dense_k = dense_heads(k), dense_v = dense_heads(v);
  const AttentionResult result = method->forward(dense_q, dense_k, dense_v, call);
  if (op_recorder) [[unlikely]]
    note_op("attention", {q, k, v, options.mask}, {result.out},
            {{"causal", call.causal}, {"scale", call.scale}});
  return record(
      result.out, "attention", {q, k, v, options.mask},
      twice([q = Saved(dense_q), k = Saved(dense_k), v = Saved(dense_v), out = Saved(result.out),
             log_sum = Saved(result.log_sum), mask = Saved(call.mask), method, call,
             inputs = inputs_of({q, k, v, options.mask})](const Tensor& g, Gradients& d) {
        mask.get();  // throws if it has changed since
        if (grad_enabled()) {
          check_alone(*method);
          return differentiate_composed(
              values_of(inputs), {&g, 1}, d, [&](const std::vector<Tensor>& in) {
                return std::vector{composed_attention(in[0], in[1], in[2], in[3], call)};
              });
        }
        const Tensor dq = heads_like(q), dk = heads_like(k), dv = heads_like(v);
        method->backward(dq, dk, dv, dense_heads(g), q, k, v, {out, log_sum}, call);
        d[0] = dq;
        d[1] = dk;
        d[2] = dv;
        if (d.wanted(3)) d[3] = mask_gradient(g, q, k, v, out, call);
      }));
}

}  // namespace

Tensor attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                 AttentionOptions options) {
  Tensor q = queries, k = keys, v = values;
  arguments::floating("attention", "q", q);
  arguments::floating("attention", "k", k);
  arguments::floating("attention", "v", v);
  apply_policy(Op::attention, {&q, &k, &v});
  if (q.ndim() != 4 || k.ndim() != 4) return attention_of(q, k, v, options, {});
  const Tensor first = settle_visible_keys(options, q, q.size(2), k.size(2));
  const bool is_grouped = k.size(1) > 0 && k.size(1) < q.size(1) && q.size(1) % k.size(1) == 0;
  return is_grouped ? grouped_attention(q, k, v, options, first)
                    : attention_of(q, k, v, options, first);
}

Tensor attention_packed(const Tensor& input, AttentionOptions options) {
  Tensor qkv = input;
  arguments::floating("attention", "qkv", qkv);
  apply_policy(Op::attention, {&qkv});
  if (qkv.ndim() != 5 || qkv.size(2) != 3)
    fail("attention: qkv has the wrong shape; got {}, want (batch, tokens, 3, heads, head size)",
         qkv.shape());
  const Tensor first = settle_visible_keys(options, qkv, qkv.size(1), qkv.size(1));
  const Tensor packed = untracked::contiguous(qkv);
  const Tensor q = part_of(packed, 0), k = part_of(packed, 1), v = part_of(packed, 2);
  const auto method = current_method();
  AttentionCall call = call_for(q, k, options, *method);
  call.first_keys = first;
  const AttentionResult result = method->forward(q, k, v, call);
  const Shape joined = {qkv.size(0), qkv.size(1), qkv.size(3) * qkv.size(4)};
  Tensor y = untracked::reshape(untracked::transpose(result.out, 1, 2), joined);
  if (op_recorder) [[unlikely]]
    note_op("attention_packed", {qkv, options.mask}, {y},
            {{"causal", call.causal}, {"scale", call.scale}});
  return record(
      y, "attention", {qkv, options.mask},
      twice([packed = Saved(packed), out = Saved(result.out), log_sum = Saved(result.log_sum),
             mask = Saved(call.mask), method, call,
             inputs = inputs_of({qkv, options.mask})](const Tensor& g, Gradients& d) {
        mask.get();
        if (grad_enabled()) {
          check_alone(*method);
          return differentiate_composed(
              values_of(inputs), {&g, 1}, d, [&](const std::vector<Tensor>& in) {
                const auto part = [&](int i) { return transpose(select(in[0], 2, i), 1, 2); };
                const Tensor heads = composed_attention(part(0), part(1), part(2), in[1], call);
                return std::vector{reshape(transpose(heads, 1, 2), g.shape())};
              });
        }
        const Tensor qkv = packed;
        const Tensor q = part_of(qkv, 0), k = part_of(qkv, 1), v = part_of(qkv, 2);
        const Tensor split =
            untracked::reshape(g, {qkv.size(0), qkv.size(1), qkv.size(3), qkv.size(4)});
        const Tensor by_head = untracked::transpose(split, 1, 2);
        d[0] = empty_like(qkv);
        method->backward(part_of(d[0], 0), part_of(d[0], 1), part_of(d[0], 2), dense_heads(by_head),
                         q, k, v, {out, log_sum}, call);
        if (d.wanted(1)) d[1] = mask_gradient(by_head, q, k, v, out, call);
      }));
}

}  // namespace booster
