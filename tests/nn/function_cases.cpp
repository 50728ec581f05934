#include "tests/nn/function_cases.h"

#include "core/nn/functional.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"

namespace booster::testing {
namespace {

using Inputs = std::vector<Tensor>;

Tensor batch_norm_with_running(const Inputs& in) {
  const Tensor mean = in[1].detach().clone(), var = in[2].detach().clone();
  const Tensor y = batch_norm(in[0], mean, var, in[3], in[4], {.training = true, .momentum = 0.3});
  return cat({flatten(y), mean, var});
}

// Returns the module with its parameters replaced by the case's leaves.
Tensor multi_head(const Inputs& in) {
  const Tensor qkv = linear(in[0], in[1], in[2]);
  return linear(attention_packed(reshape(qkv, {2, 5, 3, 3, 4})), in[3], in[4]);
}

const std::map<std::string, std::function<Tensor(const Inputs&)>>& functions() {
  static const std::map<std::string, std::function<Tensor(const Inputs&)>> table = {
      {"softmax", [](const Inputs& in) { return softmax(in[0], -1); }},
      {"softmax_of_middle", [](const Inputs& in) { return softmax(in[0], 1); }},
      {"log_softmax", [](const Inputs& in) { return log_softmax(in[0], -1); }},
      {"gelu", [](const Inputs& in) { return gelu(in[0], GeluForm::erf); }},
      {"gelu_tanh", [](const Inputs& in) { return gelu(in[0], GeluForm::tanh); }},
      {"silu", [](const Inputs& in) { return silu(in[0]); }},
      {"linear_gelu", [](const Inputs& in) { return linear_gelu(in[0], in[1], in[2]); }},
      {"layer_norm", [](const Inputs& in) { return layer_norm(in[0], {6}, in[1], in[2]); }},
      {"layer_norm_of_two",
       [](const Inputs& in) {
         return layer_norm(in[0], {5, 6}, {}, {}, 1e-3);
       }},
      {"residual_layer_norm",
       [](const Inputs& in) {
         const ResidualNorm y = residual_layer_norm(in[0], in[1], {6}, in[2], in[3], 1e-6);
         return cat({y.sum, y.normalized});
       }},
      {"group_norm", [](const Inputs& in) { return group_norm(in[0], 2, in[1], in[2]); }},
      {"batch_norm_training", batch_norm_with_running},
      {"batch_norm_eval",
       [](const Inputs& in) {
         return batch_norm(in[0], in[1], in[2], in[3], in[4], {.eps = 1e-3});
       }},
      {"conv2d", [](const Inputs& in) { return conv2d(in[0], in[1], in[2]); }},
      {"conv2d_patches",
       [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.stride = 3}); }},
      {"conv2d_strided",
       [](const Inputs& in) {
         return conv2d(in[0], in[1], {}, {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}});
       }},
      {"conv2d_groups",
       [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 2}); }},
      {"conv2d_depthwise",
       [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 4}); }},
      {"max_pool2d",
       [](const Inputs& in) { return max_pool2d(in[0], 3, {.stride = 2, .padding = 1}); }},
      {"avg_pool2d",
       [](const Inputs& in) {
         return avg_pool2d(in[0], {3, 2}, {.stride = Size2d(2, 2), .padding = {1, 1}});
       }},
      {"avg_pool2d_inside",
       [](const Inputs& in) {
         return avg_pool2d(in[0], 3, {.stride = 2, .padding = 1, .count_padding = false});
       }},
      {"max_pool2d_dilated",
       [](const Inputs& in) {
         return max_pool2d(in[0], {2, 3},
                           {.stride = Size2d(2, 1), .padding = 1, .dilation = {3, 2}});
       }},
      {"max_pool2d_ceil",
       [](const Inputs& in) { return max_pool2d(in[0], 3, {.padding = 1, .ceil_mode = true}); }},
      {"max_pool2d_ceil_dilated",
       [](const Inputs& in) {
         return max_pool2d(in[0], 2,
                           {.stride = Size2d(2, 3), .dilation = {3, 1}, .ceil_mode = true});
       }},
      {"avg_pool2d_ceil",
       [](const Inputs& in) { return avg_pool2d(in[0], 3, {.padding = 1, .ceil_mode = true}); }},
      {"avg_pool2d_ceil_inside",
       [](const Inputs& in) {
         return avg_pool2d(in[0], 3,
                           {.stride = 2, .padding = 1, .count_padding = false, .ceil_mode = true});
       }},
      {"conv_transpose2d", [](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2]); }},
      {"conv_transpose2d_strided",
       [](const Inputs& in) {
         return conv_transpose2d(in[0], in[1], {},
                                 {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}});
       }},
      {"conv_transpose2d_groups",
       [](const Inputs& in) {
         return conv_transpose2d(in[0], in[1], in[2],
                                 {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
       }},
      {"conv_transpose2d_dilated",
       [](const Inputs& in) {
         return conv_transpose2d(
             in[0], in[1], in[2],
             {.stride = {1, 2}, .padding = {2, 1}, .output_padding = {1, 2}, .dilation = {2, 3}});
       }},
      {"adaptive_avg_pool2d",
       [](const Inputs& in) {
         return adaptive_avg_pool2d(in[0], {3, 4});
       }},
      {"attention", [](const Inputs& in) { return attention(in[0], in[1], in[2]); }},
      {"attention_causal",
       [](const Inputs& in) {
         return attention(in[0], in[1], in[2], {.causal = true, .scale = 0.5});
       }},
      {"attention_masked",
       [](const Inputs& in) { return attention(in[0], in[1], in[2], {.mask = in[3]}); }},
      {"attention_learned_mask",
       [](const Inputs& in) { return attention(in[0], in[1], in[2], {.mask = in[3]}); }},
      {"attention_packed", [](const Inputs& in) { return attention_packed(in[0]); }},
      {"multi_head_attention", multi_head},
      {"embedding", [](const Inputs& in) { return embedding(in[1], in[0], 2); }},
      {"cross_entropy", [](const Inputs& in) { return cross_entropy(in[0], in[1]); }},
      {"cross_entropy_sum",
       [](const Inputs& in) { return cross_entropy(in[0], in[1], {.reduction = Reduction::sum}); }},
      {"cross_entropy_each",
       [](const Inputs& in) {
         return cross_entropy(in[0], in[1], {.label_smoothing = 0.1, .reduction = Reduction::none});
       }},
      {"cross_entropy_ignored", [](const Inputs& in) { return cross_entropy(in[0], in[1]); }},
      {"cross_entropy_smoothed",
       [](const Inputs& in) { return cross_entropy(in[0], in[1], {.label_smoothing = 0.1}); }},
      {"cross_entropy_weighted",
       [](const Inputs& in) { return cross_entropy(in[0], in[1], {.weight = in[2]}); }},
      {"cross_entropy_everything",
       [](const Inputs& in) {
         return cross_entropy(in[0], in[1], {.weight = in[2], .label_smoothing = 0.2});
       }},
      {"cross_entropy_grid",
       [](const Inputs& in) { return cross_entropy(in[0], in[1], {.ignore_index = -1}); }},
      {"cross_entropy_one", [](const Inputs& in) { return cross_entropy(in[0], in[1]); }},
      {"cross_entropy_probabilities",
       [](const Inputs& in) {
         return cross_entropy(in[0], in[1], {.weight = in[2], .label_smoothing = 0.1});
       }},
      {"nll_loss", [](const Inputs& in) { return nll_loss(in[0], in[1]); }},
      {"nll_loss_weighted",
       [](const Inputs& in) { return nll_loss(in[0], in[1], {.weight = in[2]}); }},
      {"mse_loss", [](const Inputs& in) { return mse_loss(in[0], in[1]); }},
      {"mse_loss_each", [](const Inputs& in) { return mse_loss(in[0], in[1], Reduction::none); }},
      {"l1_loss", [](const Inputs& in) { return l1_loss(in[0], in[1]); }},
      {"smooth_l1_loss", [](const Inputs& in) { return smooth_l1_loss(in[0], in[1], 0.5); }},
      {"binary_cross_entropy_with_logits",
       [](const Inputs& in) {
         return binary_cross_entropy_with_logits(in[0], in[1],
                                                 {.weight = in[2], .pos_weight = in[3]});
       }},
      {"binary_cross_entropy", [](const Inputs& in) { return binary_cross_entropy(in[0], in[1]); }},
      {"kl_div", [](const Inputs& in) { return kl_div(in[0], in[1]); }},
      {"kl_div_batch_mean",
       [](const Inputs& in) { return kl_div(in[0], in[1], {.reduction = Reduction::batch_mean}); }},
      {"kl_div_log_target",
       [](const Inputs& in) {
         return kl_div(in[0], in[1], {.reduction = Reduction::sum, .log_target = true});
       }},
      {"huber_loss", [](const Inputs& in) { return huber_loss(in[0], in[1], 0.5); }},
      {"leaky_relu", [](const Inputs& in) { return leaky_relu(in[0], 0.2); }},
      {"elu", [](const Inputs& in) { return elu(in[0], 1.5); }},
      {"rms_norm", [](const Inputs& in) { return rms_norm(in[0], {6}, in[1], 1e-5); }},
      {"conv1d",
       [](const Inputs& in) {
         return conv1d(in[0], in[1], in[2],
                       {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
       }},
      {"pixel_shuffle", [](const Inputs& in) { return pixel_shuffle(in[0], 2); }},
      {"interpolate_nearest",
       [](const Inputs& in) {
         return interpolate_nearest(in[0], {11, 4});
       }},
      {"interpolate_bilinear",
       [](const Inputs& in) {
         return interpolate(in[0], {11, 4});
       }},
      {"interpolate_bicubic",
       [](const Inputs& in) {
         return interpolate(in[0], {11, 4}, {.mode = "bicubic"});
       }},
      {"interpolate_corners",
       [](const Inputs& in) {
         return interpolate(in[0], {3, 13}, {.mode = "bicubic", .align_corners = true});
       }},
      {"interpolate_bilinear_areas",
       [](const Inputs& in) {
         return interpolate(in[0], {2, 13}, {.antialias = true});
       }},
      {"interpolate_bicubic_areas",
       [](const Inputs& in) {
         return interpolate(in[0], {3, 13}, {.mode = "bicubic", .antialias = true});
       }},
      {"interpolate_scaled",
       [](const Inputs& in) { return interpolate(in[0], {.scale_factor = Scale2d(1.3, 0.7)}); }},
      {"interpolate_scaled_areas",
       [](const Inputs& in) {
         return interpolate(in[0], {.mode = "bicubic", .antialias = true, .scale_factor = 0.6});
       }},
      {"interpolate_scaled_corners",
       [](const Inputs& in) {
         return interpolate(in[0], {.align_corners = true, .scale_factor = 1.7});
       }},
      {"interpolate_nearest_scaled",
       [](const Inputs& in) {
         return interpolate(in[0], {.mode = "nearest", .scale_factor = Scale2d(1.3, 2.2)});
       }},
      {"interpolate_nearest_exact",
       [](const Inputs& in) {
         return interpolate(in[0], {11, 4}, {.mode = "nearest-exact"});
       }},
      {"interpolate_area",
       [](const Inputs& in) {
         return interpolate(in[0], {3, 4}, {.mode = "area"});
       }},
      {"clamp", [](const Inputs& in) { return clamp(in[0], -0.25, 0.5); }},
      {"clamp_below", [](const Inputs& in) { return clamp(in[0], {}, 0.0); }},
      {"slice", [](const Inputs& in) { return slice(in[0], 1, 1, -1, 2); }},
      {"slice_outside", [](const Inputs& in) { return slice(in[0], 0, -9, 40, 3); }},
      {"flip",
       [](const Inputs& in) {
         return flip(in[0], {0, 2});
       }},
      {"pad",
       [](const Inputs& in) {
         return pad(in[0], {1, 2, 0, 3}, 0.5);
       }},
      {"pad_cuts",
       [](const Inputs& in) {
         return pad(in[0], {-1, 2, 2, -1});
       }},
      {"pad_reflect",
       [](const Inputs& in) {
         return pad(in[0], {1, 3, 2, -1}, "reflect");
       }},
      {"pad_replicate",
       [](const Inputs& in) {
         return pad(in[0], {2, 5, -1, 3}, "replicate");
       }},
      {"pad_circular",
       [](const Inputs& in) {
         return pad(in[0], {3, -1, 1, 2}, "circular");
       }},
      {"diagonal", [](const Inputs& in) { return diagonal(in[0], 2, 0); }},
      {"mask", [](const Inputs& in) { return in[0][greater(select(in[0], 2, 0), 0.0)]; }},
      {"masked_fill", [](const Inputs& in) { return masked_fill(in[0], greater(in[1], 0.0), -2); }},
      {"tril", [](const Inputs& in) { return tril(in[0], 1); }},
      {"triu", [](const Inputs& in) { return triu(in[0], -1); }},
      {"split_by_sizes",
       [](const Inputs& in) {
         const auto parts = split(in[0], {1, 3, 2}, 1);
         return cat({parts[2], parts[1], parts[0]}, 1);
       }},
      {"chunk",
       [](const Inputs& in) {
         const auto parts = chunk(in[0], 3, -1);
         return cat({parts[2], parts[1], parts[0]}, -1);
       }},
      {"unbind", [](const Inputs& in) { return unbind(in[0], 1)[1] * 2; }},
      {"norm", [](const Inputs& in) { return norm(in[0]); }},
      {"norm_of_rows", [](const Inputs& in) { return norm(in[0], {-1}, true); }},
      {"norm_by_1",
       [](const Inputs& in) {
         return norm(in[0], {0, 2}, false, 1);
       }},
      {"norm_by_3", [](const Inputs& in) { return norm(in[0], {1}, false, 3); }},
      {"norm_by_infinity", [](const Inputs& in) { return norm(in[0], {1}, false, INFINITY); }},
      {"logsumexp",
       [](const Inputs& in) {
         return logsumexp(in[0], {0, 2});
       }},
      {"stddev", [](const Inputs& in) { return stddev(in[0], {1}); }},
      {"min", [](const Inputs& in) { return min(in[0], 1).first; }},
      {"max_of_all", [](const Inputs& in) { return max(in[0]); }},
      {"var_biased",
       [](const Inputs& in) {
         return var(in[0], {0, 2}, false, true);
       }},
      {"bmm", [](const Inputs& in) { return bmm(in[0], in[1]); }},
      {"cumsum", [](const Inputs& in) { return cumsum(in[0], 1); }},
      {"cumsum_of_rows", [](const Inputs& in) { return cumsum(in[0], -1); }},
      {"sort", [](const Inputs& in) { return sort(in[0], 1).first; }},
      {"sort_descending", [](const Inputs& in) { return sort(in[0], -1, true).first; }},
      {"topk", [](const Inputs& in) { return topk(in[0], 3, 0).first; }},
      {"topk_smallest", [](const Inputs& in) { return topk(in[0], 40, -1, false).first; }},
      {"gather", [](const Inputs& in) { return gather(in[0], 1, in[1]); }},
      {"scatter", [](const Inputs& in) { return scatter(in[0], 1, in[1], in[2]); }},
      {"scatter_value", [](const Inputs& in) { return scatter(in[0], 0, in[1], 1.5); }},
      {"scatter_add", [](const Inputs& in) { return scatter_add(in[0], 1, in[1], in[2]); }},
      {"select", [](const Inputs& in) { return in[0][1] * in[0][-1]; }},
      {"einsum_matmul", [](const Inputs& in) { return einsum("ij,jk->ik", in); }},
      {"einsum_attention", [](const Inputs& in) { return einsum("bhqd,bkhd->bhqk", in); }},
      {"einsum_outer", [](const Inputs& in) { return einsum("i,j->ji", in); }},
      {"einsum_dot", [](const Inputs& in) { return einsum("ij,ij->", in); }},
      {"einsum_implicit", [](const Inputs& in) { return einsum("ba, c b", in); }},
      {"einsum_ellipsis", [](const Inputs& in) { return einsum("...ij,j...->...i", in); }},
      {"einsum_sums", [](const Inputs& in) { return einsum("ijk,jl->kl", in); }},
      {"einsum_one", [](const Inputs& in) { return einsum("ijk->kj", in); }},
      {"einsum_trace", [](const Inputs& in) { return einsum("ii", in); }},
      {"einsum_diagonal", [](const Inputs& in) { return einsum("iji->ji", in); }},
      {"einsum_diagonals", [](const Inputs& in) { return einsum("...ii,jij->...j", in); }},
      {"einsum_three", [](const Inputs& in) { return einsum("bn,anm,bm->ba", in); }},
  };
  return table;
}

}  // namespace

std::vector<Tensor> FunctionCase::inputs(DType dtype) const {
  std::vector<Tensor> all;
  uint32_t seed = 0;
  for (const Json& spec : golden["inputs"]) {
    const Shape shape = shape_of(spec["shape"]);
    if (spec.contains("values")) {
      all.push_back(from_vector(spec["values"].get<std::vector<int64_t>>(), shape));
    } else {
      const Tensor x = hashed(shape, seed, spec["low"], spec["high"]);
      all.push_back(untracked::cast(x, dtype));
    }
    ++seed;
  }
  return all;
}

const std::vector<FunctionCase>& function_cases() {
  static const std::vector<FunctionCase> cases = [] {
    std::vector<FunctionCase> made;
    const auto add = [&](const char* file, const auto& table) {
      for (const Json& golden : read_golden(file)) {
        const std::string name = golden["name"];
        made.push_back({name, table.at(name), golden});
      }
    };
    add("functions.json", functions());
    add("coverage.json", coverage_functions());
    return made;
  }();
  return cases;
}

}  // namespace booster::testing
