// Vision Transformer (Dosovitskiy et al., 2021) as timm builds it: same parameter names, shapes and
// initial distributions, so that timm's weights load unchanged.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/residual_stream.h"

#include <optional>
#include <string>
#include <vector>

namespace booster::models {

struct VitOptions {
  int64_t num_classes = 1000;  // 0: no head, the model returns the class token's features
  double drop_rate = 0;        // before the head
  double attn_drop_rate = 0;   // attention probabilities
  double proj_drop_rate = 0;   // after the projections of attention and MLP
  double pos_drop_rate = 0;    // after the position embedding
  double drop_path_rate = 0;   // of the last block's branches; rises linearly from 0 at the first
  int64_t in_chans = 3;
  // Set by the model's name unless given here.
  std::optional<Size2d> img_size = {};
  std::optional<int64_t> patch_size = {};
  std::optional<int64_t> embed_dim = {};
  std::optional<int64_t> depth = {};
  std::optional<int64_t> num_heads = {};
  double mlp_ratio = 4;
  bool qkv_bias = true;
};

// Makes vit_tiny_patch16_224, vit_small_patch16_224, vit_small_patch32_224, vit_base_patch16_224,
// vit_base_patch32_224, vit_large_patch16_224 or vit_large_patch32_224. Takes images (n, in_chans,
// height, width) of img_size; returns logits (n, num_classes). Throws with the nearest name for any
// other name.
Model vit(const std::string& name, VitOptions options = {});
std::vector<std::string> vit_names();
// Returns `options` with the sizes that the name fixes filled in. Throws for sizes that do not fit
// together: an image smaller than a patch, heads that do not divide the features.
VitOptions vit_options(const std::string& name, VitOptions options = {});

class VitAttention : public Module {
 public:
  VitAttention(int64_t features, int64_t heads, const VitOptions& options);
  int64_t attention_heads() const override { return proj.weight.size(1) / head_size_; }
  Linear& qkv;
  Linear& proj;
  Dropout& proj_drop;

 private:
  Tensor forward(const Tensor& x) override;
  int64_t head_size_;
  double attn_drop_;
};

class VitMlp : public Module {
 public:
  VitMlp(int64_t features, int64_t hidden, double drop);
  Linear& fc1;
  GELU& act;
  Dropout& drop1;
  Linear& fc2;
  Dropout& drop2;

 private:
  Tensor forward(const Tensor& x) override;
};

class VitBlock : public Module {
 public:
  VitBlock(int64_t features, int64_t heads, double drop_path, const VitOptions& options);
  // x + attn(norm1(x)), then the same with the MLP.
  ResidualStream advance(const ResidualStream& stream);
  LayerNorm& norm1;
  VitAttention& attn;
  DropPath& drop_path1;
  LayerNorm& norm2;
  VitMlp& mlp;
  DropPath& drop_path2;

 private:
  Tensor forward(const Tensor& x) override { return advance({x, {}}).sum(); }
};

// Cuts the image into patches and projects each: (n, c, h, w) to (n, patches, features).
class PatchEmbed : public Module {
 public:
  PatchEmbed(Size2d image, int64_t patch, int64_t channels, int64_t features);
  int64_t patches() const;
  Tensor example_input(int64_t rows) const override;
  Conv2d& proj;

 private:
  Tensor forward(const Tensor& x) override;
  Size2d image_;
  int64_t patch_;
};

class VisionTransformer : public Module {
 public:
  // `options` must have a value in every optional.
  explicit VisionTransformer(const VitOptions& options);
  const Tensor cls_token, pos_embed;
  PatchEmbed& patch_embed;
  Dropout& pos_drop;
  Sequential& blocks;
  LayerNorm& norm;
  Dropout& head_drop;
  // "embedding", each block ("blocks.0", ...), and "head", which starts with the last norm.
  int link_count() const override { return static_cast<int>(each_block_.size()) + 2; }
  Link link(int i) const override;
  Tensor example_input(int64_t rows) const override { return patch_embed.example_input(rows); }
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& image) override { return forward_links(image, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  Tensor classified(const ResidualStream& stream);
  Tensor embedded(const Tensor& image);
  std::vector<VitBlock*> each_block_;
  Linear* head_ = nullptr;
};

}  // namespace booster::models
