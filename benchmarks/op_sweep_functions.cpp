#include "benchmarks/op_sweep_functions.h"

namespace booster::benchmarks {
namespace {

using In = const SweepInput&;
using List = std::vector<SweepFunction>;

void add_table(List& list) {
#define UNARY(name, ...)                                                    \
  list.push_back({#name, SweepKind::elementwise, false, [](In in) {         \
                    const std::string text = #name;                         \
                    const bool needs_positive =                             \
                        text == "log" || text == "sqrt" || text == "rsqrt"; \
                    name(needs_positive ? in.positive : in.x);              \
                  }});
#define BINARY(name, ...)                                                                 \
  list.push_back({#name, SweepKind::pair, true, [](In in) { name(in.positive, in.y); }}); \
  list.push_back({#name "_number", SweepKind::elementwise, true, [](In in) { name(in.x, 3.0); }});
#define COMPARE(name, ...)                                                         \
  list.push_back({#name, SweepKind::pair, true, [](In in) { name(in.x, in.y); }}); \
  list.push_back({#name "_number", SweepKind::elementwise, true, [](In in) { name(in.x, 1.0); }});
#include "kernels/elementwise.def"
}

void add_elementwise(List& list) {
  const auto unary = [&](const char* name, std::function<void(In)> run, bool integers = false) {
    list.push_back({name, SweepKind::elementwise, integers, std::move(run)});
  };
  unary("pow_2", [](In in) { pow(in.x, 2.0); });
  unary("pow_half", [](In in) { pow(in.positive, 0.5); });
  unary("pow_2.5", [](In in) { pow(in.positive, 2.5); });
  unary("pow_minus_1", [](In in) { pow(in.positive, -1.0); });
  unary("number_sub", [](In in) { sub(1.0, in.x); }, true);
  unary("number_div", [](In in) { div(1.0, in.positive); });
  unary("clamp", [](In in) { clamp(in.x, -1, 1); }, true);
  unary("isfinite", [](In in) { isfinite(in.x); });
  unary("isnan", [](In in) { isnan(in.x); });
  unary("gelu_erf", [](In in) { gelu(in.x, GeluForm::erf); });
  unary("leaky_relu", [](In in) { leaky_relu(in.x, 0.01); });
  unary("elu", [](In in) { elu(in.x, 1); });
  unary("masked_fill", [](In in) { masked_fill(in.x, in.mask, 0); }, true);
  unary("clone", [](In in) { in.x.clone(); }, true);
  unary("contiguous", [](In in) { contiguous(in.x); }, true);
  unary("zeros_like", [](In in) { zeros_like(in.x); }, true);
  // Broadcast tensors cannot be changed in place.
  const auto in_place = [&](const char* name, std::function<void(In)> run, bool integers) {
    list.push_back({name, SweepKind::other, integers, std::move(run)});
  };
  in_place("fill_", [](In in) { Tensor(in.y).fill_(3); }, true);
  in_place("mul_", [](In in) { Tensor(in.y).mul_(1.0); }, true);
  in_place("to_f32", [](In in) { in.x.to(DType::f32).mul_(1); }, false);
  unary("to_bf16", [](In in) { in.x.to(DType::bf16); }, true);
  unary("to_f16", [](In in) { in.x.to(DType::f16); }, true);
  unary("to_f64", [](In in) { in.x.to(DType::f64); }, true);
  unary("to_i64", [](In in) { in.x.to(DType::i64); });
  unary("to_i32", [](In in) { in.x.to(DType::i32); }, true);
  unary("to_bool", [](In in) { in.x.to(DType::boolean); }, true);
  unary("to_u8", [](In in) { in.mask.to(DType::u8); });
  unary("mask_to_f32", [](In in) { in.mask.to(DType::f32); });
  unary("index_to_f32", [](In in) { in.index.to(DType::f32); });
  unary("dropout", [](In in) { dropout(in.x, 0.1); });
  unary("flatten", [](In in) { flatten(in.x); }, true);
  unary("pad", [](In in) { pad(in.x, {1, 1}); }, true);
  unary("tril", [](In in) { tril(in.x); }, true);
  unary("triu", [](In in) { triu(in.x); }, true);
  unary("uniform", [](In in) { uniform(in.x.shape()); });
  unary("normal", [](In in) { normal(in.x.shape()); });
  unary("bernoulli", [](In in) { bernoulli(clamp(in.positive, 0, 1)); });
  unary("randint", [](In in) { randint(0, 1000, in.x.shape()); });
  unary("full", [](In in) { full(in.x.shape(), 2); });
  unary("arange", [](In in) { arange(in.x.numel()); });
  unary("linspace", [](In in) { linspace(0, 1, in.x.numel()); });
  unary("random_permutation", [](In in) { random_permutation(in.x.size(-1)); });
}

void add_pairs(List& list) {
  const auto pair = [&](const char* name, std::function<void(In)> run, bool integers = false) {
    list.push_back({name, SweepKind::pair, integers, std::move(run)});
  };
  pair("where", [](In in) { where(in.mask, in.x, in.y); }, true);
  pair("copy_", [](In in) { Tensor(in.positive).copy_(in.y); }, true);
  pair("add_", [](In in) { Tensor(in.x).add_(in.y); }, true);
  pair("add_3", [](In in) { Tensor(in.x).add_(in.y, 3); });
  pair("mul_add", [](In in) { add(mul(in.x, in.y), in.x); }, true);
  pair("mixed_add", [](In in) { add(in.x, in.index); });
  pair("equal_mask", [](In in) { equal(in.mask, 0); });
}

void add_losses(List& list) {
  const auto loss = [&](const char* name, std::function<void(In)> run) {
    list.push_back({name, SweepKind::other, false, std::move(run)});
  };
  loss("mse_loss", [](In in) { mse_loss(in.x, in.y); });
  loss("l1_loss", [](In in) { l1_loss(in.x, in.y); });
  loss("smooth_l1_loss", [](In in) { smooth_l1_loss(in.x, in.y); });
  loss("huber_loss", [](In in) { huber_loss(in.x, in.y); });
  loss("kl_div", [](In in) { kl_div(in.y, in.positive); });
  loss("bce_logits", [](In in) { binary_cross_entropy_with_logits(in.x, in.positive); });
  loss("bce", [](In in) {
    binary_cross_entropy(mul(in.positive, 0.5), mul(in.positive, 0.5));
  });
  const auto rows = [](In in) { return reshape(in.x, {-1, in.x.size(-1)}); };
  const auto targets = [](In in) { return flatten(select(in.index, -1, 0)); };
  loss("cross_entropy", [=](In in) { cross_entropy(rows(in), targets(in)); });
  loss("nll_loss", [=](In in) { nll_loss(rows(in), targets(in)); });
  loss("linear", [](In in) { linear(in.x, in.matrix.t()); });
  loss("linear_bias", [](In in) { linear(in.x, in.matrix.t(), select(in.matrix, 0, 0)); });
  loss("linear_gelu", [](In in) { linear_gelu(in.x, in.matrix.t(), select(in.matrix, 0, 0)); });
  loss("matmul", [](In in) { matmul(in.x, in.matrix); });
  loss("matmul_vector", [](In in) { matmul(in.x, in.vector); });
  loss("vector_matmul", [](In in) {
    const Tensor matrix = in.x.ndim() < 3 ? in.x : in.x[0][0];
    matmul(select(matrix, -1, 0), matrix);
  });
  loss("matmul_self", [](In in) { matmul(in.x, transpose(in.y, -1, -2)); });
  loss("einsum", [](In in) { einsum("...i,ij->...j", {in.x, in.matrix}); });
  loss("dot", [](In in) { matmul(flatten(in.x), flatten(in.x)); });
  loss("layer_norm", [](In in) { layer_norm(in.x, {in.x.size(-1)}, in.weight, in.weight); });
  loss("rms_norm", [](In in) { rms_norm(in.x, {in.x.size(-1)}, in.weight); });
  loss("residual_layer_norm", [](In in) {
    residual_layer_norm(in.x, in.y, {in.x.size(-1)}, in.weight, in.weight);
  });
  loss("embedding", [](In in) { embedding(in.index[0], in.matrix); });
}

void add_along(List& list) {
  const auto along = [&](const char* name, std::function<void(In)> run, bool integers = false) {
    list.push_back({name, SweepKind::along, integers, std::move(run)});
  };
  along("sum", [](In in) { sum(in.x, {in.dim}); }, true);
  along("mean", [](In in) { mean(in.x, {in.dim}); });
  along("amax", [](In in) { amax(in.x, {in.dim}); }, true);
  along("amin", [](In in) { amin(in.x, {in.dim}); }, true);
  along("argmax", [](In in) { argmax(in.x, in.dim); }, true);
  along("argmin", [](In in) { argmin(in.x, in.dim); }, true);
  along("max", [](In in) { max(in.x, in.dim); }, true);
  along("min", [](In in) { min(in.x, in.dim); }, true);
  along("var", [](In in) { var(in.x, {in.dim}); });
  along("stddev", [](In in) { stddev(in.x, {in.dim}); });
  along("norm", [](In in) { norm(in.x, {in.dim}); });
  along("norm_1", [](In in) { norm(in.x, {in.dim}, false, 1); });
  along("norm_3", [](In in) { norm(in.x, {in.dim}, false, 3); });
  along("logsumexp", [](In in) { logsumexp(in.x, in.dim); });
  along("softmax", [](In in) { softmax(in.x, in.dim); });
  along("log_softmax", [](In in) { log_softmax(in.x, in.dim); });
  along("cumsum", [](In in) { cumsum(in.x, in.dim); }, true);
  along("sort", [](In in) { sort(in.x, in.dim); }, true);
  along("sort_descending", [](In in) { sort(in.x, in.dim, true); });
  along("argsort", [](In in) { argsort(in.x, in.dim); });
  along("topk", [](In in) { topk(in.x, 5, in.dim); }, true);
  along("topk_smallest", [](In in) { topk(in.x, 5, in.dim, false); });
  along("flip", [](In in) { flip(in.x, {in.dim}); }, true);
  along("cat", [](In in) { cat({in.x, in.x}, in.dim); }, true);
  along("stack", [](In in) { stack({in.x, in.x}, in.dim); }, true);
  along("split", [](In in) { split(in.x, 16, in.dim); });
  along("slice_clone", [](In in) { slice(in.x, in.dim, 0, {}, 2).clone(); }, true);
  along(
      "index_select",
      [](In in) {
        index_select(in.x, in.dim,
                     flatten(narrow(in.index.ndim() > 2 ? in.index[0][0] : in.index, 0, 0, 1)));
      },
      true);
  along("gather", [](In in) { gather(in.x, in.dim, in.index); }, true);
  along("scatter", [](In in) { scatter(in.x, in.dim, in.index, in.x); });
  along("scatter_number", [](In in) { scatter(in.x, in.dim, in.index, 3.0); });
  along("scatter_add", [](In in) { scatter_add(in.x, in.dim, in.index, in.x); });
  const auto all = [&](const char* name, std::function<void(In)> run, bool integers = false) {
    list.push_back({name, SweepKind::elementwise, integers, std::move(run)});
  };
  all("sum_all", [](In in) { sum(in.x); }, true);
  all("mean_all", [](In in) { mean(in.x); });
  all("max_all", [](In in) { max(in.x); }, true);
  all("min_all", [](In in) { min(in.x); });
  all("argmax_all", [](In in) { argmax(in.x); });
  all("argmin_all", [](In in) { argmin(in.x); });
  all("norm_all", [](In in) { norm(in.x); });
  all("sum_first_last", [](In in) { sum(in.x, {0, -1}); });
  all("masked_select", [](In in) { in.x[in.mask]; });
}

void backward_of(List& list, const char* name, SweepKind kind,
                 const std::function<Tensor(const Tensor&, In)>& f) {
  list.push_back({name, kind, false, [f](In in) {
                    const GradMode mode(true);
                    Tensor x = in.x.detach();
                    x.requires_grad_();
                    f(x, in).backward();
                  }});
}

void add_backward(List& list) {
  const auto along = SweepKind::along, elementwise = SweepKind::elementwise;
  backward_of(list, "sum_backward", along, [](auto& x, In in) { return sum(sum(x, {in.dim})); });
  backward_of(list, "mul_backward", elementwise, [](auto& x, In in) { return sum(mul(x, in.y)); });
  backward_of(list, "gelu_backward", elementwise,
              [](auto& x, In) { return sum(gelu(x, GeluForm::erf)); });
  backward_of(list, "tanh_backward", elementwise, [](auto& x, In) { return sum(tanh(x)); });
  backward_of(list, "pow_backward", elementwise, [](auto& x, In) { return sum(pow(x, 3.0)); });
  backward_of(list, "sin_backward", elementwise, [](auto& x, In) { return sum(sin(x)); });
  backward_of(list, "softmax_backward", along,
              [](auto& x, In in) { return sum(mul(softmax(x, in.dim), in.positive)); });
  backward_of(list, "amax_backward", along, [](auto& x, In in) { return sum(amax(x, {in.dim})); });
  backward_of(list, "cumsum_backward", along,
              [](auto& x, In in) { return sum(cumsum(x, in.dim)); });
  backward_of(list, "transpose_backward", elementwise, [](auto& x, In in) {
    return sum(mul(transpose(x, -1, -2), transpose(in.y, -1, -2)));
  });
}

}  // namespace

std::vector<SweepFunction> sweep_functions() {
  List list;
  add_table(list);
  add_elementwise(list);
  add_pairs(list);
  add_losses(list);
  add_along(list);
  add_backward(list);
  return list;
}

std::vector<SweepFunction> sweep_image_functions() {
  List list;
  const auto add = [&](const char* name, std::function<void(In)> run) {
    list.push_back({name, SweepKind::other, false, std::move(run)});
  };
  add("conv2d", [](In in) { conv2d(in.x, in.matrix, in.vector, {.padding = 1}); });
  add("conv2d_stride", [](In in) { conv2d(in.x, in.matrix, {}, {.stride = 2}); });
  add("conv_transpose2d", [](In in) { conv_transpose2d(in.x, in.matrix, {}, {.stride = 2}); });
  add("batch_norm", [](In in) {
    batch_norm(in.x, {}, {}, in.vector, in.vector, {.training = true});
  });
  add("group_norm", [](In in) { group_norm(in.x, 4, in.vector, in.vector); });
  add("max_pool2d", [](In in) { max_pool2d(in.x, 2); });
  add("avg_pool2d", [](In in) { avg_pool2d(in.x, 3, {.stride = 2, .padding = 1}); });
  add("adaptive_avg_pool2d", [](In in) { adaptive_avg_pool2d(in.x, 1); });
  add("pixel_shuffle", [](In in) { pixel_shuffle(in.x, 2); });
  add("interpolate_nearest", [](In in) { interpolate_nearest(in.x, 56); });
  add("interpolate_bilinear", [](In in) { interpolate(in.x, Size2d(56)); });
  add("pad_reflect", [](In in) { pad(in.x, {2, 2, 2, 2}, "reflect"); });
  add("pad_replicate", [](In in) { pad(in.x, {2, 2, 2, 2}, "replicate"); });
  add("dropout2d", [](In in) { dropout2d(in.x, 0.1); });
  add("image_mean", [](In in) { mean(in.x, {2, 3}); });
  add("image_sum_channels", [](In in) { sum(in.x, {0, 2, 3}); });
  add("image_relu", [](In in) { relu(in.x); });
  add("image_add", [](In in) { booster::add(in.x, in.x); });
  add("image_bias", [](In in) { booster::add(in.x, reshape(in.vector, {-1, 1, 1})); });
  add("image_channels_last", [](In in) { channels_last(in.x); });
  add("image_contiguous", [](In in) { contiguous(in.x); });
  add("attention", [](In in) { attention(in.x, in.x, in.x); });
  add("attention_causal", [](In in) { attention(in.x, in.x, in.x, {.causal = true}); });
  return list;
}

}  // namespace booster::benchmarks
