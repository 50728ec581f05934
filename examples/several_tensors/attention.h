// Attention to itself or to another text, as a module of named tensors.
#pragma once

#include <booster/booster.h>

namespace several_tensors {

using namespace booster;

struct Sizes {
  int64_t vocabulary = 12, features = 32, heads = 4, blocks = 2, longest = 16;
};

// Queries of "x" look at "memory", or at "x" itself if there is none, and at what "mask" shows.
class Attention : public Module {
 public:
  explicit Attention(const Sizes& all, bool is_causal = false)
      : Module("Attention"), sizes(all), causal(is_causal) {}
  int64_t attention_heads() const override { return out.weight.size(1) / head_size; }
  const Sizes sizes;
  const bool causal;
  const int64_t head_size = sizes.features / sizes.heads;
  Linear& q = add<Linear>("q", sizes.features, sizes.features);
  Linear& k = add<Linear>("k", sizes.features, sizes.features);
  Linear& v = add<Linear>("v", sizes.features, sizes.features);
  Linear& out = add<Linear>("out", sizes.features, sizes.features);

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor seen = x[x.contains("memory") ? "memory" : "x"];
    const Tensor mask = x.contains("mask") ? x["mask"].unsqueeze(1).unsqueeze(1) : Tensor();
    const Tensor y = attention(heads(q(x["x"])), heads(k(seen)), heads(v(seen)),
                               {.mask = mask, .causal = causal});
    return out(flatten(transpose(y, 1, 2), 2));
  }
  Tensor heads(const Tensor& x) const {
    return transpose(reshape(x, {x.size(0), x.size(1), -1, head_size}), 1, 2);
  }
};

}  // namespace several_tensors
