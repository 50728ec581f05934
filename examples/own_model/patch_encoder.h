// patch_encoder: a model of a program's own, outside the library. It cuts images into patches, runs
// blocks of attention over them, and classifies the mean of the tokens. traits() and the three link
// functions are all that hybrid_parallel, the planner and files of weights need.
#pragma once

#include <booster/booster.h>

namespace own_model {

using namespace booster;

struct EncoderOptions {
  int64_t num_classes = 10, channels = 3;
  int64_t img_size = 32, patch_size = 4;  // pixels a side
  int64_t features = 64, layers = 4, heads = 4;
};

class Attention : public Module {
 public:
  explicit Attention(const EncoderOptions& options)
      : Module("EncoderAttention"),
        in(add<Linear>("in", options.features, 3 * options.features)),
        out(add<Linear>("out", options.features, options.features)),
        head_size_(options.features / options.heads) {
    check(options.features % options.heads == 0,
          "patch_encoder: heads do not divide the features; got {} heads of {}", options.heads,
          options.features);
  }
  int64_t attention_heads() const override { return out.weight.size(1) / head_size_; }
  Linear &in, &out;

 private:
  // A rank may have some of the tokens or of the heads, so the sizes come from the tensor.
  Tensor forward(const Tensor& x) override {
    const Tensor packed = in(x);
    return out(
        attention_packed(reshape(packed, {packed.size(0), packed.size(1), 3, -1, head_size_})));
  }
  int64_t head_size_;
};

class Block : public Module {
 public:
  explicit Block(const EncoderOptions& options)
      : Module("EncoderBlock"),
        norm1(add<LayerNorm>("norm1", options.features)),
        attention(add<Attention>("attention", options)),
        norm2(add<LayerNorm>("norm2", options.features)),
        fc1(add<Linear>("fc1", options.features, 4 * options.features)),
        fc2(add<Linear>("fc2", 4 * options.features, options.features)) {}
  LayerNorm& norm1;
  Attention& attention;
  LayerNorm& norm2;
  Linear &fc1, &fc2;

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + attention(norm1(x));
    return y + fc2(gelu(fc1(norm2(y))));
  }
};

class PatchEncoder : public Module {
 public:
  explicit PatchEncoder(const EncoderOptions& options)
      : Module("PatchEncoder"),
        patches(add<Conv2d>("patches", options.channels, options.features, options.patch_size,
                            {.stride = options.patch_size})),
        positions(
            add_parameter("positions", normal({1, tokens_of(options), options.features}, 0, 0.02))),
        layers(add<Sequential>("layers")),
        norm(add<LayerNorm>("norm", options.features)),
        classifier(add<Linear>("classifier", options.features, options.num_classes)),
        options_(options) {
    for (int64_t i = 0; i < options.layers; ++i) layers.append(Block(options));
  }
  Conv2d& patches;
  const Tensor positions;
  Sequential& layers;
  LayerNorm& norm;
  Linear& classifier;

  ModuleTraits traits() const override {
    return {.tensor_plan = {{"layers.*.attention.in", {.style = SplitStyle::column, .groups = 3}},
                            {"layers.*.attention.out", {.style = SplitStyle::row}},
                            {"layers.*.fc1", {.style = SplitStyle::column}},
                            {"layers.*.fc2", {.style = SplitStyle::row}}},
            .blocks = "layers.*",
            .tokens = tokens_of(options_),
            .features = options_.features,
            .position_free = true,
            .file_form = renamed({{"layers.", "encoder.layer."}, {"patches.", "embeddings."}}),
            .heads = {"classifier"},
            .no_weight_decay = {"positions"}};
  }
  Tensor example_input(int64_t rows) const override {
    return zeros({rows, options_.channels, options_.img_size, options_.img_size});
  }

  // "embedding", each block ("layers.0", ...), and "classifier", which starts with the norm.
  int link_count() const override { return static_cast<int>(layers.size()) + 2; }
  Link link(int i) const override {
    if (i > 0 && i <= layers.size())
      return link_of("layers." + std::to_string(i - 1), {&layers[i - 1]});
    if (i > 0) return link_of("classifier", {&norm, &classifier});
    Link embedding = link_of("embedding", {&patches});
    embedding.tensors.push_back(positions);
    return embedding;
  }

 private:
  Tensor forward(const Tensor& image) override { return forward_links(image, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override {
    const int head = link_count() - 1;
    Tensor y = first == 0 ? transpose(flatten(patches(x), 2), 1, 2) + positions : x;
    for (int i = std::max(first, 1); i < std::min(last, head); ++i) y = layers[i - 1](y);
    return last > head ? classifier(mean(norm(y), {1})) : y;
  }
  static int64_t tokens_of(const EncoderOptions& options) {
    const int64_t side = options.img_size / options.patch_size;
    return side * side;
  }
  EncoderOptions options_;
};

}  // namespace own_model
