// Windows of keys, and texts that are packed of several documents.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/documents.h"
#include "core/nn/functional.h"
#include "core/nn/models/decoder.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/rotary.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;
using booster::testing::draws;

namespace {

double farthest(const Tensor& a, const Tensor& b) {
  const auto wide = [](const Tensor& x) { return x.detach().to(DType::f64); };
  return amax(abs(wide(a) - wide(b))).item();
}

struct Heads {
  Tensor q, k, v;
  Heads(int64_t heads, int64_t key_heads, int64_t tokens) {
    q = normal({2, heads, tokens, 6}).requires_grad_();
    k = normal({2, key_heads, tokens, 6}).requires_grad_();
    v = normal({2, key_heads, tokens, 6}).requires_grad_();
  }
  std::vector<Tensor> gradients() const {
    return {q.grad().clone(), k.grad().clone(), v.grad().clone()};
  }
  void clear() const {
    for (const Tensor* x : {&q, &k, &v}) Tensor(x->grad()).zero_();
  }
};

}  // namespace

TEST_CASE("a window and documents hide the keys that a mask of them hides") {
  for (const unsigned seed : draws(66)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](unsigned choices) { return static_cast<int64_t>(random() % choices); };
    manual_seed(seed);
    const int64_t tokens = 1 + draw(60), window = draw(2) * (1 + draw(40));
    std::vector<int64_t> ids;
    for (int64_t i = 0, id = 0; i < 2 * tokens; ++i) ids.push_back(id += draw(6) == 0);
    const Tensor documents = from_vector(ids, {2, tokens});
    const Heads in(4, draw(2) ? 4 : 2, tokens);
    const Tensor place = arange(tokens, {DType::i64});
    const Tensor back = unsqueeze(place, 1) - place;  // how far a key lies behind a query
    Tensor seen = equal(unsqueeze(documents, 2), unsqueeze(documents, 1));
    if (window > 0) seen = mul(seen, less(back, double(window)));
    const Tensor mask = unsqueeze(not_equal(seen, 0.0), 1);
    const Tensor got =
        attention(in.q, in.k, in.v, {.causal = true, .window = window, .documents = documents});
    sum(sin(got)).backward();
    const auto gradients = in.gradients();
    in.clear();
    const Tensor want = attention(in.q, in.k, in.v, {.mask = mask, .causal = true});
    sum(sin(want)).backward();
    CHECK(farthest(got, want) < 1e-5);
    const auto wanted = in.gradients();
    for (size_t i = 0; i < 3; ++i) CHECK(farthest(gradients[i], wanted[i]) < 1e-5);
  }
}

TEST_CASE("documents of another shape, or without causality, are an error") {
  const Heads in(2, 2, 5);
  const Tensor documents = zeros({2, 5}, {.dtype = DType::i64});
  CHECK(error_of([&] {
          attention(in.q, in.k, in.v, {.documents = documents});
        }).find("need causal = true") != std::string::npos);
  CHECK(error_of([&] {
          attention(in.q, in.k, in.v, {.causal = true, .documents = zeros({2, 4}, {DType::i64})});
        }).find("documents have the wrong shape; got") != std::string::npos);
}

namespace {

// Logits of each document alone, one after another.
Tensor apart(const Model& model, const std::vector<int64_t>& ids, int64_t end) {
  std::vector<Tensor> logits;
  std::vector<int64_t> document;
  for (size_t i = 0; i < ids.size(); ++i) {
    document.push_back(ids[i]);
    if (ids[i] != end && i + 1 < ids.size()) continue;
    const auto length = static_cast<int64_t>(document.size());
    logits.push_back(model(from_vector(document, {1, length})));
    document.clear();
  }
  return cat(logits, 1);
}

void check_documents(const Model& model, const Model& same_without_end) {
  const std::vector<int64_t> ids = {4, 5, 1, 7, 1, 3, 2, 6, 8, 3, 1, 4};
  for (const bool recompute : {false, true}) {
    model->apply([&](Module& module) {
      const bool is_block =
          dynamic_cast<models::DecoderBlock*>(&module) || dynamic_cast<models::Gpt2Block*>(&module);
      module.set_recompute(recompute && is_block);
    });
    const Tensor logits = model(from_vector(ids, {1, 12}));
    const Tensor want = apart(same_without_end, ids, 1);
    CHECK(farthest(logits, want) < 1e-4);
    const auto gradient = [](const Model& of, const Tensor& y) {
      for (const auto& [name, p] : of.parameters())
        if (p.grad().defined()) Tensor(p.grad()).zero_();
      sum(sin(y)).backward();
      return of.parameters()[0].tensor.grad().clone();
    };
    CHECK(farthest(gradient(model, logits), gradient(same_without_end, want)) < 1e-3);
  }
}

}  // namespace

TEST_CASE("packed documents give a decoder's results of each document alone") {
  models::DecoderOptions options{.vocab_size = 9,
                                 .hidden_size = 16,
                                 .intermediate_size = 24,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 4,
                                 .num_key_value_heads = 2,
                                 .max_position_embeddings = 12};
  manual_seed(1);
  const Model plain = models::decoder("llama", options);
  options.document_end = 1;
  manual_seed(1);
  check_documents(models::decoder("llama", options), plain);
}

TEST_CASE("packed documents give a gpt2's results of each document alone") {
  models::Gpt2Options options{.vocab_size = 9,
                              .n_positions = 12,
                              .embd_pdrop = 0,
                              .attn_pdrop = 0,
                              .resid_pdrop = 0,
                              .n_embd = 16,
                              .n_layer = 2,
                              .n_head = 2};
  manual_seed(1);
  const Model plain = models::gpt2("gpt2", options);
  options.document_end = 1;
  manual_seed(1);
  check_documents(models::gpt2("gpt2", options), plain);
}

TEST_CASE("rotary turns each text by its own positions, and back in the gradient") {
  const Rotary rotary(8, {});
  const RotaryTables all = rotary.tables(0, 9, {});
  const Tensor positions = from_vector<int64_t>({0, 1, 2, 5, 6, 0, 8, 3, 3, 1}, {2, 5});
  const Tensor x = normal({2, 3, 5, 8}).requires_grad_();
  const Tensor y = rotate(x, tables_at(all, positions));
  for (int64_t text = 0; text < 2; ++text)
    for (int64_t i = 0; i < 5; ++i) {
      const auto at = static_cast<int64_t>(select(select(positions, 0, text), 0, i).item());
      const RotaryTables one = rotary.tables(at, 1, {});
      const Tensor token = narrow(narrow(x, 0, text, 1), 2, i, 1);
      CHECK(farthest(narrow(narrow(y, 0, text, 1), 2, i, 1), rotate(token, one)) == 0);
    }
  sum(y * y).backward();  // lengths do not change
  CHECK(farthest(x.grad(), x * 2) < 1e-5);
}
