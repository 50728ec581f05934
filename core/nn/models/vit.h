// The modules of models::vit (core/nn/models.h).
#pragma once

#include "core/nn/models.h"
#include "core/nn/residual_stream.h"

#include <vector>

namespace booster::models {

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
  int64_t features_;
  std::vector<VitBlock*> each_block_;
  Linear* head_ = nullptr;
};

}  // namespace booster::models
