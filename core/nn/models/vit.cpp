#include "core/nn/models/vit.h"

#include "core/nn/functional.h"
#include "core/nn/module_traits.h"

#include <algorithm>

namespace booster::models {
namespace {

constexpr double norm_eps = 1e-6;  // timm's; PyTorch's default is 1e-5

void initialize_vit(Module& module) {
  if (auto* layer = dynamic_cast<Linear*>(&module)) {
    init::truncated_normal(layer->weight, 0, 0.02);
    if (layer->bias.defined()) init::zeros(layer->bias);
  }
}

void check_image(Size2d image, int64_t patch) {
  check(image.height >= patch && image.width >= patch,
        "vit: image is smaller than a patch; got ({}, {}), want at least {}", image.height,
        image.width, patch);
}

void check_heads(int64_t features, int64_t heads) {
  check(heads > 0 && features % heads == 0,
        "vit: heads do not divide the features; got {} heads of {}", heads, features);
}

void check_sizes(const VitOptions& options) {
  check(*options.patch_size > 0 && *options.embed_dim > 0 && *options.depth >= 0,
        "vit: sizes must be positive; got patch_size {}, embed_dim {}, depth {}",
        *options.patch_size, *options.embed_dim, *options.depth);
  check_image(*options.img_size, *options.patch_size);
  check_heads(*options.embed_dim, *options.num_heads);
}

}  // namespace

VitAttention::VitAttention(int64_t features, int64_t heads, const VitOptions& options)
    : Module("VitAttention"),
      qkv(add<Linear>("qkv", features, 3 * features, LinearOptions{.bias = options.qkv_bias})),
      proj(add<Linear>("proj", features, features)),
      proj_drop(add<Dropout>("proj_drop", options.proj_drop_rate)),
      head_size_(features / std::max<int64_t>(heads, 1)),
      attn_drop_(options.attn_drop_rate) {
  check_heads(features, heads);
}

Tensor VitAttention::forward(const Tensor& x) {
  const Tensor packed = qkv(x);
  const int64_t heads = packed.size(2) / (3 * head_size_);  // this rank's
  const Shape split = {packed.size(0), packed.size(1), 3, heads, head_size_};
  const double drop = training() ? attn_drop_ : 0;
  return proj_drop(proj(attention_packed(reshape(packed, split), {.dropout = drop})));
}

VitMlp::VitMlp(int64_t features, int64_t hidden, double drop)
    : Module("VitMlp"),
      fc1(add<Linear>("fc1", features, hidden)),
      act(add<GELU>("act")),
      drop1(add<Dropout>("drop1", drop)),
      fc2(add<Linear>("fc2", hidden, features)),
      drop2(add<Dropout>("drop2", drop)) {}

Tensor VitMlp::forward(const Tensor& x) {
  const bool watched = fc1.must_be_called() || act.must_be_called();
  const Tensor hidden = watched ? act(fc1(x)) : linear_gelu(x, fc1.weight, fc1.bias, act.form);
  return drop2(fc2(drop1(hidden)));
}

VitBlock::VitBlock(int64_t features, int64_t heads, double drop_path, const VitOptions& options)
    : Module("VitBlock"),
      norm1(add<LayerNorm>("norm1", features, LayerNormOptions{.eps = norm_eps})),
      attn(add<VitAttention>("attn", features, heads, options)),
      drop_path1(add<DropPath>("drop_path1", drop_path)),
      norm2(add<LayerNorm>("norm2", features, LayerNormOptions{.eps = norm_eps})),
      mlp(add<VitMlp>("mlp", features,
                      static_cast<int64_t>(static_cast<double>(features) * options.mlp_ratio),
                      options.proj_drop_rate)),
      drop_path2(add<DropPath>("drop_path2", drop_path)) {}

ResidualStream VitBlock::advance(const ResidualStream& stream) {
  const ResidualNorm first = normalized(norm1, stream);
  const ResidualNorm second = normalized(norm2, {first.sum, drop_path1(attn(first.normalized))});
  return {second.sum, drop_path2(mlp(second.normalized))};
}

PatchEmbed::PatchEmbed(Size2d image, int64_t patch, int64_t channels, int64_t features)
    : Module("PatchEmbed"),
      proj(add<Conv2d>("proj", channels, features, Size2d(patch), Conv2dOptions{.stride = patch})),
      image_(image),
      patch_(patch) {
  check_image(image, patch);
}

int64_t PatchEmbed::patches() const { return (image_.height / patch_) * (image_.width / patch_); }

Tensor PatchEmbed::example_input(int64_t rows) const {
  return zeros({rows, proj.weight.size(1), image_.height, image_.width});
}

Tensor PatchEmbed::forward(const Tensor& x) {
  check(x.ndim() == 4 && x.size(2) == image_.height && x.size(3) == image_.width,
        "vit: image has the wrong size; got {}, want (n, {}, {}, {})", x.shape(),
        proj.weight.size(1), image_.height, image_.width);
  return transpose(flatten(proj(x), 2), 1, 2);
}

VisionTransformer::VisionTransformer(const VitOptions& options)
    : Module("VisionTransformer"),
      cls_token(add_parameter("cls_token", empty({1, 1, *options.embed_dim}))),
      pos_embed(
          add_parameter("pos_embed", empty({1,
                                            1 + (options.img_size->height / *options.patch_size) *
                                                    (options.img_size->width / *options.patch_size),
                                            *options.embed_dim}))),
      patch_embed(add<PatchEmbed>("patch_embed", *options.img_size, *options.patch_size,
                                  options.in_chans, *options.embed_dim)),
      pos_drop(add<Dropout>("pos_drop", options.pos_drop_rate)),
      blocks(add<Sequential>("blocks")),
      norm(add<LayerNorm>("norm", *options.embed_dim, LayerNormOptions{.eps = norm_eps})),
      head_drop(add<Dropout>("head_drop", options.drop_rate)),
      features_(*options.embed_dim) {
  check(options.num_classes >= 0, "vit: num_classes is negative; got {}", options.num_classes);
  const int64_t depth = *options.depth;
  for (int64_t i = 0; i < depth; ++i) {
    const double share = depth > 1 ? static_cast<double>(i) / static_cast<double>(depth - 1) : 0;
    auto block = std::make_shared<VitBlock>(*options.embed_dim, *options.num_heads,
                                            options.drop_path_rate * share, options);
    each_block_.push_back(block.get());
    blocks.append(Model(std::move(block)));
  }
  if (options.num_classes > 0)
    head_ = &add<Linear>("head", *options.embed_dim, options.num_classes);
  init::truncated_normal(pos_embed, 0, 0.02);
  init::normal(cls_token, 0, 1e-6);
  apply(initialize_vit);
}

Tensor VisionTransformer::embedded(const Tensor& image) {
  const Tensor patches = patch_embed(image);
  const Tensor token = expand(cls_token, {image.size(0), 1, cls_token.size(2)});
  return pos_drop(cat({token, patches}, 1) + pos_embed);
}

// Each token is normalised separately, so the class token is selected first.
Tensor VisionTransformer::classified(const ResidualStream& stream) {
  const Tensor token = norm(ResidualStream{
      select(stream.x, 1, 0), stream.branch.defined() ? select(stream.branch, 1, 0) : Tensor()}
                                .sum());
  return head_ ? (*head_)(head_drop(token)) : token;
}

ModuleTraits VisionTransformer::traits() const {
  TensorPlan plan = {{"blocks.*.attn.qkv", {.style = SplitStyle::column, .groups = 3}},
                     {"blocks.*.attn.proj", {.style = SplitStyle::row}},
                     {"blocks.*.mlp.fc1", {.style = SplitStyle::column}},
                     {"blocks.*.mlp.fc2", {.style = SplitStyle::row}}};
  if (head_) plan.push_back({"head", {.style = SplitStyle::column, .gather = true}});
  return {.tensor_plan = plan,
          .blocks = "blocks.*",
          .tokens = 1 + patch_embed.patches(),
          .features = features_,
          .position_free = true,
          .heads = {"head"},
          .position_grids = {"pos_embed"},
          .no_weight_decay = {"cls_token", "pos_embed"}};
}

Link VisionTransformer::link(int i) const {
  const int count = link_count();
  check(i >= 0 && i < count, "vit: link out of range; got {} of {}", i, count);
  if (i > 0 && i < count - 1)
    return link_of(fmt::format("blocks.{}", i - 1), {each_block_[static_cast<size_t>(i - 1)]});
  if (i > 0) return head_ ? link_of("head", {&norm, head_}) : link_of("head", {&norm});
  Link embedding = link_of("embedding", {&patch_embed});
  embedding.tensors.push_back(cls_token);
  embedding.tensors.push_back(pos_embed);
  return embedding;
}

// Keeps the residual stream's parts separate within these links and sums them at the end.
Tensor VisionTransformer::forward_links(const Tensor& x, int first, int last) {
  ResidualStream stream{first == 0 ? embedded(x) : x, {}};
  const int head = link_count() - 1;
  for (int i = std::max(first, 1); i < std::min(last, head); ++i) {
    VitBlock& block = *each_block_[static_cast<size_t>(i - 1)];
    stream =
        block.must_be_called() ? ResidualStream{block(stream.sum()), {}} : block.advance(stream);
  }
  return last > head ? classified(stream) : stream.sum();
}

namespace {

struct VitPreset {
  const char* name;
  int64_t patch, features, depth, heads;
};
constexpr VitPreset vit_presets[] = {
    {"vit_tiny_patch16_224", 16, 192, 12, 3},    {"vit_small_patch16_224", 16, 384, 12, 6},
    {"vit_small_patch32_224", 32, 384, 12, 6},   {"vit_base_patch16_224", 16, 768, 12, 12},
    {"vit_base_patch32_224", 32, 768, 12, 12},   {"vit_large_patch16_224", 16, 1024, 24, 16},
    {"vit_large_patch32_224", 32, 1024, 24, 16},
};

const VitPreset& vit_preset(const std::string& name) {
  for (const VitPreset& preset : vit_presets)
    if (name == preset.name) return preset;
  fail("vit: unknown model; got {}{}", name, legal_names(name, vit_names()));
}

}  // namespace

std::vector<std::string> vit_names() {
  std::vector<std::string> names;
  for (const VitPreset& preset : vit_presets) names.push_back(preset.name);
  return names;
}

VitOptions vit_options(const std::string& name, VitOptions options) {
  const VitPreset& preset = vit_preset(name);
  options.img_size = options.img_size.value_or(224);
  options.patch_size = options.patch_size.value_or(preset.patch);
  options.embed_dim = options.embed_dim.value_or(preset.features);
  options.depth = options.depth.value_or(preset.depth);
  options.num_heads = options.num_heads.value_or(preset.heads);
  check_sizes(options);
  return options;
}

Model vit(const std::string& name, VitOptions options) {
  return std::make_shared<VisionTransformer>(vit_options(name, std::move(options)));
}

}  // namespace booster::models
