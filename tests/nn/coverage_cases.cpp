// The functions of tests/golden/nn/coverage.json, by name.
#include "core/nn/functional.h"
#include "tests/nn/function_cases.h"

namespace booster::testing {
namespace {

using Inputs = std::vector<Tensor>;
using Table = std::map<std::string, std::function<Tensor(const Inputs&)>>;

// Cases that are `function(in[0], ...)` with every input.
#define OF_ONE(name)                                    \
  {                                                     \
#name, [](const Inputs& in) { return name(in[0]); } \
  }
#define OF_TWO(name)                                           \
  {                                                            \
#name, [](const Inputs& in) { return name(in[0], in[1]); } \
  }
#define OF_THREE(name)                                                \
  {                                                                   \
#name, [](const Inputs& in) { return name(in[0], in[1], in[2]); } \
  }
#define CASE(name, ...)                                \
  {                                                    \
    name, [](const Inputs& in) { return __VA_ARGS__; } \
  }

Tensor places(const std::vector<int64_t>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

const Table tensor_functions = {
    CASE("lerp", lerp(in[0], in[1], 0.7)),
    CASE("lerp_by_tensor", lerp(in[0], in[1], in[2])),
    CASE("addcmul", addcmul(in[0], in[1], in[2], 0.5)),
    CASE("addcdiv", addcdiv(in[0], in[1], in[2], 0.5)),
    OF_TWO(hypot),
    OF_TWO(fmod),
    OF_TWO(remainder),
    OF_TWO(atan2),
    OF_TWO(logaddexp),
    OF_TWO(xlogy),
    OF_TWO(take),
    OF_TWO(outer),
    OF_TWO(cdist),
    OF_ONE(mish),
    OF_ONE(hardswish),
    CASE("logit", logit(in[0], 0.1)),
    CASE("roll", roll(in[0], {2, -1}, {1, 0})),
    CASE("roll_flat", roll(in[0], {5})),
    CASE("repeat", repeat(in[0], {2, 1, 3})),
    CASE("tile", tile(in[0], {2})),
    CASE("repeat_interleave", repeat_interleave(in[0], 2, 1)),
    CASE("repeat_interleave_by", repeat_interleave(in[0], in[1], 1)),
    CASE("tensor_unfold", unfold(in[0], 1, 3, 2)),
    CASE("diag", diag(in[0], -1)),
    CASE("diag_of_matrix", diag(in[0], 2)),
    CASE("diag_embed", diag_embed(in[0], 1)),
    CASE("index_add", index_add(in[0], 1, in[1], in[2], 0.5)),
    CASE("index_copy", index_copy(in[0], 1, in[1], in[2])),
    CASE("masked_select", masked_select(in[0], greater(in[1], 0.0))),
    CASE("cumprod", cumprod(in[0], 1)),
    CASE("prod", prod(in[0], 0)),
    CASE("prod_of_all", prod(in[0])),
    CASE("diff", diff(in[0], 2, 1)),
    CASE("kthvalue", kthvalue(in[0], 2, 1).first),
    CASE("median", median(in[0], 1).first),
    CASE("quantile", quantile(in[0].dtype() == DType::f64 ? in[0] : in[0].to(DType::f32), 0.3, 1)
                         .to(in[0].dtype())),
    CASE("cross", cross(in[0], in[1], 0)),
    OF_ONE(hardsigmoid),
    OF_ONE(selu),
    OF_ONE(softsign),
    OF_ONE(logsigmoid),
    OF_ONE(relu6),
    CASE("celu", celu(in[0], 1.5)),
    CASE("hardtanh", hardtanh(in[0], -1, 2)),
    CASE("threshold", threshold(in[0], 0.5, 2)),
    CASE("hardshrink", hardshrink(in[0], 0.7)),
    CASE("softshrink", softshrink(in[0], 0.7)),
    OF_ONE(tanhshrink),
    CASE("softmin", softmin(in[0], 1)),
    CASE("softplus_of", softplus(in[0], 2, 3)),
    OF_TWO(prelu),
    CASE("prelu_of_one", prelu(in[0], in[1])),
    CASE("glu", glu(in[0], 1)),
    OF_ONE(rrelu),
};

const Table layer_functions = {
    OF_THREE(instance_norm),
    CASE("local_response_norm", local_response_norm(in[0], 3, 0.5, 0.75, 2)),
    CASE("normalize", normalize(in[0], 3, 1)),
    OF_TWO(cosine_similarity),
    OF_TWO(pairwise_distance),
    CASE("bilinear", bilinear(in[0], in[1], in[2], in[3])),
    CASE("conv3d", conv3d(in[0], in[1], in[2],
                          {.stride = {2, 1, 1}, .padding = {1, 0, 2}, .dilation = {1, 2, 1}})),
    CASE("conv_transpose3d",
         conv_transpose3d(in[0], in[1], in[2],
                          {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .dilation = {2, 1, 1}},
                          {1, 0, 1})),
    CASE("conv_transpose3d_groups",
         conv_transpose3d(in[0], in[1], {}, {.padding = {2, 1, 0}, .groups = 2})),
    CASE("conv_transpose1d",
         conv_transpose1d(in[0], in[1], in[2], {.stride = 2, .padding = 1}, 1)),
    CASE("max_pool1d", max_pool1d(in[0], 3, {.stride = 2, .padding = 1})),
    CASE("avg_pool1d", avg_pool1d(in[0], 3, {.stride = 2, .padding = 1})),
    CASE("adaptive_avg_pool1d", adaptive_avg_pool1d(in[0], 4)),
    CASE("adaptive_max_pool1d", adaptive_max_pool1d(in[0], 4)),
    CASE("adaptive_max_pool2d", adaptive_max_pool2d(in[0], {3, 4})),
    CASE("max_pool3d", max_pool3d(in[0], {2, 3, 2},
                                  {.stride = Size3d(2, 2, 1), .padding = {1, 1, 0}})),
    CASE("avg_pool3d", avg_pool3d(in[0], {2, 3, 2},
                                  {.stride = Size3d(2), .padding = {1, 1, 0},
                                   .count_padding = false})),
    CASE("adaptive_avg_pool3d", adaptive_avg_pool3d(in[0], {2, 4, 3})),
    CASE("adaptive_max_pool3d", adaptive_max_pool3d(in[0], {2, 4, 3})),
    {"max_unpool2d",
     [](const Inputs& in) {
       const auto [largest, index] = max_pool2d_with_indices(in[0], 2);
       return max_unpool2d(largest, index, {6, 6});
     }},
    {"max_unpool3d",
     [](const Inputs& in) {
       const auto [largest, index] = max_pool3d_with_indices(in[0], {2, 2, 1});
       return max_unpool3d(largest, index, {5, 6, 4});
     }},
    CASE("lp_pool3d", lp_pool3d(in[0], 3, {2, 3, 1}, {.stride = Size3d(1, 2, 2)})),
    CASE("lp_pool2d", lp_pool2d(in[0], 2, {2, 3}, {.stride = 2})),
    CASE("unfold", unfold(in[0], {2, 3}, {.padding = {1, 0}, .stride = {2, 1}})),
    CASE("fold", fold(in[0], {5, 4}, {2, 3}, {.padding = {1, 0}, .stride = {2, 1}})),
    CASE("pixel_unshuffle", pixel_unshuffle(in[0], 2)),
    CASE("channel_shuffle", channel_shuffle(in[0], 2)),
    OF_TWO(grid_sample),
    CASE("grid_sample_border",
         grid_sample(in[0], in[1], {.padding = "border", .align_corners = true})),
    CASE("grid_sample_nearest", grid_sample(in[0], in[1], {.mode = "nearest"})),
    CASE("affine_grid", affine_grid(in[0], {3, 4})),
    CASE("embedding_bag", embedding_bag(in[1], in[0], {}, "sum")),
    CASE("embedding_bag_offsets", embedding_bag(in[1], in[0], places({0, 2, 2}))),
};

const Table loss_functions = {
    OF_TWO(soft_margin_loss),
    CASE("hinge_embedding_loss", hinge_embedding_loss(in[0], in[1], 1.5)),
    CASE("margin_ranking_loss", margin_ranking_loss(in[0], in[1], in[2], 0.3)),
    CASE("cosine_embedding_loss", cosine_embedding_loss(in[0], in[1], in[2], 0.1)),
    OF_THREE(triplet_margin_loss),
    CASE("triplet_margin_loss_swap",
         triplet_margin_loss(in[0], in[1], in[2],
                             {.margin = 2, .swap = true, .reduction = Reduction::sum})),
    CASE("gaussian_nll_loss", gaussian_nll_loss(in[0], in[1], in[2], true)),
    OF_TWO(poisson_nll_loss),
    CASE("poisson_nll_loss_full",
         poisson_nll_loss(in[0], in[1], {.log_input = false, .full = true})),
    OF_TWO(multi_margin_loss),
    CASE("multi_margin_loss_squares",
         multi_margin_loss(in[0], in[1],
                           {.p = 2, .margin = 0.7, .weight = in[2], .reduction = Reduction::none})),
    OF_TWO(multilabel_margin_loss),
    OF_TWO(multilabel_soft_margin_loss),
    CASE("ctc_loss", ctc_loss(log_softmax(in[0], -1), in[1], places({6, 5}), places({3, 2}))),
    CASE("ctc_loss_each", ctc_loss(log_softmax(in[0], -1), in[1], places({6, 4}), places({1, 0}),
                                   {.reduction = Reduction::none})),
};

#undef OF_ONE
#undef OF_TWO
#undef OF_THREE
#undef CASE

}  // namespace

Table coverage_functions() {
  Table all = tensor_functions;
  all.insert(layer_functions.begin(), layer_functions.end());
  all.insert(loss_functions.begin(), loss_functions.end());
  return all;
}

}  // namespace booster::testing
