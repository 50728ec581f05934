// An encoder-decoder of named tensors, with cross attention and a mask of the source. Each part
// takes what the previous one gives, so a pipeline may cut between any two.
#pragma once

#include "examples/several_tensors/attention.h"

namespace several_tensors {

using namespace booster;

// Turns the tokens "source" and "target" into features; hands on "mask", true for source tokens.
class Embeddings : public Module {
 public:
  explicit Embeddings(const Sizes& all) : Module("Embeddings"), sizes(all) {}
  const Sizes sizes;
  Embedding& tokens = add<Embedding>("tokens", sizes.vocabulary, sizes.features);
  Embedding& positions = add<Embedding>("positions", sizes.longest, sizes.features);

 private:
  Tensors forward_named(const Tensors& x) override {
    const auto features = [&](const Tensor& ids) {
      return tokens(ids) + positions(arange(ids.size(1)).to(ids.device()));
    };
    return {
        {"source", features(x["source"])}, {"mask", x["mask"]}, {"target", features(x["target"])}};
  }
};

// Works on "source", or on "target" with a look at the source; hands on the others.
class Block : public Module {
 public:
  Block(const Sizes& all, bool is_decoder)
      : Module(is_decoder ? "DecoderBlock" : "EncoderBlock"), sizes(all), decodes(is_decoder) {}
  ModuleTraits traits() const override {  // for tensor parallelism
    const LayerPlan column = {.style = SplitStyle::column}, row = {.style = SplitStyle::row};
    return {.tensor_plan = {{"*.[qkv]", column}, {"*.out", row}, {"fc1", column}, {"fc2", row}}};
  }
  const Sizes sizes;
  const bool decodes;
  Attention& attention = add<Attention>("attention", sizes, decodes);
  Attention* cross = decodes ? &add<Attention>("cross", sizes) : nullptr;
  LayerNorm& norm1 = add<LayerNorm>("norm1", sizes.features);
  LayerNorm* norm2 = decodes ? &add<LayerNorm>("norm2", sizes.features) : nullptr;
  LayerNorm& norm3 = add<LayerNorm>("norm3", sizes.features);
  Linear& fc1 = add<Linear>("fc1", sizes.features, 2 * sizes.features);
  Linear& fc2 = add<Linear>("fc2", 2 * sizes.features, sizes.features);

 private:
  Tensors forward_named(const Tensors& x) override {
    const std::string name = decodes ? "target" : "source";
    Tensors own = {{"x", norm1(x[name])}};
    if (!decodes) own.set("mask", x["mask"]);
    Tensor y = x[name] + attention(own).only();
    if (decodes) {
      const Tensors both = {{"x", (*norm2)(y)}, {"memory", x["source"]}, {"mask", x["mask"]}};
      y = y + (*cross)(both).only();
    }
    Tensors all = x;
    all.set(name, y + fc2(gelu(fc1(norm3(y)))));
    return all;
  }
};

class Head : public Module {
 public:
  explicit Head(const Sizes& all) : Module("Head"), sizes(all) {}
  const Sizes sizes;
  LayerNorm& norm = add<LayerNorm>("norm", sizes.features);
  Linear& linear = add<Linear>("linear", sizes.features, sizes.vocabulary);

 private:
  Tensors forward_named(const Tensors& x) override { return linear(norm(x["target"])); }
};

inline Model encoder_decoder(const Sizes& sizes = {}) {
  Sequential all = {Embeddings(sizes)};
  for (const bool decodes : {false, true})
    for (int64_t i = 0; i < sizes.blocks; ++i) all.append(Block(sizes, decodes));
  all.append(Head(sizes));
  return Model(std::move(all));
}

}  // namespace several_tensors
