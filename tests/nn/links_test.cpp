// The links at which a model can be cut. One by one and in runs they give the whole model's result,
// and use exactly their declared tensors.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/models.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/models/resnet.h"
#include "core/nn/models/vit.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace booster;

namespace {

using Numbers = std::vector<float>;

// Returns a module of one link, or several in a Sequential, from (n, 6) to (n, 6).
Model drawn(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 6 : 4)) {
    case 0: return Linear(6, 6);
    case 1: return GELU();
    case 2: return LayerNorm(6);
    case 3: return Identity();
    default: break;
  }
  Sequential several;
  for (int left = static_cast<int>(random() % 4); left > 0; --left)
    several.append(drawn(random, depth - 1));
  return Model(std::move(several));
}

struct Case {
  Model model;
  Tensor input;
  bool same_bits = true;  // transformers sum their residual stream at cuts
};

Case drawn_case(std::mt19937& random) {
  if (random() % 8 == 0)
    return {models::vit("vit_tiny_patch16_224", {.num_classes = static_cast<int64_t>(random() % 3),
                                                 .img_size = 16,
                                                 .patch_size = 8,
                                                 .embed_dim = 12,
                                                 .depth = static_cast<int64_t>(random() % 4),
                                                 .num_heads = 3}),
            uniform({2, 3, 16, 16}, -1, 1), false};
  if (random() % 8 == 0)
    return {models::gpt2("gpt2", {.vocab_size = 11,
                                  .n_positions = 6,
                                  .embd_pdrop = 0,
                                  .attn_pdrop = 0,
                                  .resid_pdrop = 0,
                                  .n_embd = 12,
                                  .n_layer = 1 + static_cast<int64_t>(random() % 3),
                                  .n_head = 3}),
            from_vector(std::vector<int64_t>{0, 3, 3, 10, 1, 7, 0, 2}, {2, 4}), false};
  if (random() % 16 == 0) return {models::resnet20(), uniform({2, 3, 8, 8}, -1, 1)};
  if (random() % 8 == 0) return {models::mlp({6, 9, 5, 4}), uniform({3, 6}, -1, 1)};
  Sequential several;
  for (int left = static_cast<int>(random() % 5); left > 0; --left)
    several.append(drawn(random, 3));
  return {std::move(several), uniform({3, 6}, -1, 1)};
}

// Returns the starts of runs of links, and the end.
std::vector<int> cuts_of(std::mt19937& random, int links) {
  std::vector<int> cuts = {0};
  for (int i = 1; i < links; ++i)
    if (random() % 3 == 0) cuts.push_back(i);
  cuts.push_back(links);
  return cuts;
}

std::vector<Numbers> gradients_of(const Model& model) {
  std::vector<Numbers> all;
  for (const auto& [name, parameter] : model.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().to_vector<float>() : Numbers());
  return all;
}

// Runs backward from sums of squares, so that gradients depend on all values.
Numbers trained(const Tensor& y) {
  if (y.requires_grad()) backward(sum(y * y));
  return y.to_vector<float>();
}

bool are_close(const Numbers& a, const Numbers& b) {
  double far = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    far = std::max<double>(far, std::abs(a[i] - b[i]));
    size = std::max<double>(size, std::abs(b[i]));
  }
  return a.size() == b.size() && far <= 1e-5 * (1 + size);
}

}  // namespace

TEST_CASE("links in runs give the outputs and gradients of the whole model") {
  for (const unsigned round : testing::draws(300)) {
    std::mt19937 random(round);
    const Case drawn = drawn_case(random);
    if (random() % 2) drawn.model.eval();
    if (random() % 3 == 0)
      for (auto& [name, module] : drawn.model->named_modules())
        if (random() % 4 == 0) module->set_recompute(true);
    const StateDict before = [&] {
      StateDict copies;
      for (const auto& [name, tensor] : drawn.model.state_dict())
        copies.push_back({name, tensor.clone()});
      return copies;
    }();
    const Numbers whole = trained(drawn.model(drawn.input));
    const std::vector<Numbers> want = gradients_of(drawn.model);
    drawn.model.zero_grad();
    drawn.model.load_state_dict(before);  // running statistics
    Tensor y = drawn.input;
    const std::vector<int> cuts = cuts_of(random, drawn.model->link_count());
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      y = drawn.model->run_links(y, cuts[i], cuts[i + 1]);
    const Numbers in_runs = trained(y);
    const std::vector<Numbers> got = gradients_of(drawn.model);
    INFO("round ", round, " of ", drawn.model.to_string());
    if (drawn.same_bits) {
      CHECK(in_runs == whole);
      CHECK(got == want);
      continue;
    }
    CHECK(are_close(in_runs, whole));
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(are_close(got[i], want[i]));
  }
}

// Tensors that a run of links does not declare may have any value.
TEST_CASE("a run of links uses the tensors that its links name, and all are named") {
  const NoGradGuard no_grad;
  for (const unsigned round : testing::draws(200)) {
    std::mt19937 random(round);
    const Case drawn = drawn_case(random);
    drawn.model.eval();
    Tensor x = drawn.input;
    std::vector<Tensor> named;
    const std::vector<int> cuts = cuts_of(random, drawn.model->link_count());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Tensor want = drawn.model->run_links(x, cuts[i], cuts[i + 1]);
      std::vector<Tensor> used;
      for (int link = cuts[i]; link < cuts[i + 1]; ++link)
        for (const Tensor& tensor : drawn.model->link(link).tensors) used.push_back(tensor);
      std::vector<std::pair<Tensor, Tensor>> spoilt;
      for (const auto& [name, tensor] : drawn.model.state_dict()) {
        const auto is_it = [&tensor = tensor](const Tensor& one) { return one.same_body(tensor); };
        if (!is_floating(tensor.dtype()) || std::ranges::any_of(used, is_it)) continue;
        spoilt.emplace_back(tensor, tensor.clone());
        Tensor(tensor).fill_(NAN);
      }
      INFO("round ", round, " of ", drawn.model.to_string());
      CHECK(drawn.model->run_links(x, cuts[i], cuts[i + 1]).to_vector<float>() ==
            want.to_vector<float>());
      for (auto& [tensor, numbers] : spoilt) tensor.copy_(numbers);
      named.insert(named.end(), used.begin(), used.end());
      x = want;
    }
    for (const auto& [name, tensor] : drawn.model.state_dict())
      CHECK(std::ranges::any_of(
          named, [&tensor = tensor](const Tensor& one) { return one.same_body(tensor); }));
  }
}

TEST_CASE("links have the names of the modules that they run") {
  const Model nested = Sequential({Linear(2, 2), Sequential({GELU(), Linear(2, 2)}), Tanh()});
  std::vector<std::string> names;
  for (int i = 0; i < nested->link_count(); ++i) names.push_back(nested->link(i).name);
  CHECK(names == std::vector<std::string>{"0", "1.0", "1.1", "2"});
  const Model vit = models::vit("vit_tiny_patch16_224");
  CHECK(vit->link_count() == 14);
  CHECK(vit->link(0).name == "embedding");
  CHECK(vit->link(12).name == "blocks.11");
  CHECK(vit->link(13).name == "head");
  const Model resnet = models::resnet20();
  CHECK(resnet->link_count() == 11);
  CHECK(resnet->link(4).name == "layer2.0");
  for (const Model& model : {nested, vit, resnet, Model(Linear(2, 2))}) {
    CHECK_THROWS_WITH_AS(model->link(model->link_count()), doctest::Contains("link out of range"),
                         Error);
    CHECK_THROWS_WITH_AS(model->run_links(ones({1, 2}), 1, 1),
                         doctest::Contains("links out of range; got [1, 1)"), Error);
  }
}

TEST_CASE("hooks of a model run where its first link begins and its last one ends") {
  const Model model = Sequential({Identity(), Identity(), Identity()});
  std::string calls;
  model->register_forward_pre_hook([&](Module&, const Tensor& x) {
    calls += "<";
    return x * 2;
  });
  model->register_forward_hook([&](Module&, const Tensor&, const Tensor& y) {
    calls += ">";
    return y + 1;
  });
  const Tensor x = ones({1});
  const Tensor a = model->run_links(x, 0, 1);
  CHECK(calls == "<");
  const Tensor b = model->run_links(a, 1, 2);
  CHECK(calls == "<");
  CHECK(model->run_links(b, 2, 3).item() == 3);
  CHECK(calls == "<>");
  CHECK(model(x).item() == 3);
}
