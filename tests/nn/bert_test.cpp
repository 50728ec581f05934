// BERT by itself. booster/checkpoint/bert_files_test.cpp compares it with Hugging Face's files and
// values.
#include "core/autograd/tape.h"
#include "core/autograd/backward.h"
#include "core/nn/generate.h"
#include "core/nn/models/bert.h"
#include "core/tensor/absence.h"
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

models::BertOptions small_bert() {
  return {.architecture = "BertModel",
          .vocab_size = 31,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 40,
          .hidden_dropout_prob = 0,
          .attention_probs_dropout_prob = 0,
          .max_position_embeddings = 12,
          .add_pooling_layer = false};
}

using Texts = std::vector<std::vector<int32_t>>;

// Texts of 1 to 12 tokens, none of them 0.
Texts drawn_texts(std::mt19937& random, size_t count) {
  Texts texts(count);
  for (auto& text : texts) {
    text.resize(1 + random() % 12);
    for (int32_t& token : text) token = 1 + static_cast<int32_t>(random() % 30);
  }
  return texts;
}

Tensor ids_of(const Texts& texts) { return select(models::bert_input(texts), 1, 0); }

double far(const Tensor& a, const Tensor& b) {
  return largest_error(a.to_vector<double>(), b.to_vector<double>());
}

}  // namespace

TEST_CASE("bert has Hugging Face's parameters and initial distributions") {
  // Results of Hugging Face's num_parameters().
  const std::vector<std::pair<const char*, int64_t>> counts = {
      {"BertModel", 109482240},
      {"BertForMaskedLM", 109514298},
      {"BertForSequenceClassification", 109483778},
      {"BertForTokenClassification", 108893186}};
  for (const auto& [architecture, count] : counts) {
    CAPTURE_PART(architecture);
    const LazyInit no_memory;
    CHECK(models::bert({.architecture = architecture})->parameter_count() == count);
  }
  manual_seed(1);
  auto options = small_bert();
  options.architecture = "BertForMaskedLM";
  options.initializer_range = 0.1;
  options.vocab_size = 300;
  const Model model = models::bert(options);
  for (const auto& [name, p] : model.parameters()) {
    CAPTURE_PART(name);
    const NoGradGuard no_grad;
    if (p.ndim() == 2 && p.numel() > 400)
      CHECK(norm(p).item() / std::sqrt(double(p.numel())) == doctest::Approx(0.1).epsilon(0.15));
    if (p.ndim() == 1) CHECK(amin(p).item() == (name.ends_with("LayerNorm.weight") ? 1 : 0));
  }
  const Tensor words = model.parameters()[0].tensor;
  CHECK(model.parameters()[0].name == "bert.embeddings.word_embeddings.weight");
  CHECK(norm(select(words, 0, 0)).item() == 0);
}

TEST_CASE("a padded text has the features that it has alone") {
  for (const unsigned seed : draws(22)) {
    std::mt19937 random(seed);
    manual_seed(seed);
    auto options = small_bert();
    options.mask_padding = true;
    const Model model = models::bert(options);
    const NoGradGuard no_grad;
    const Texts texts = drawn_texts(random, 4);
    const Tensor planes = model(models::bert_input(texts)), ids = model(ids_of(texts));
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto at = static_cast<int64_t>(i), length = static_cast<int64_t>(texts[i].size());
      const Tensor alone = model(ids_of({texts[i]}));
      for (const Tensor& all : {planes, ids})
        CHECK(far(narrow(narrow(all, 0, at, 1), 1, 0, length), alone) < 1e-5);
    }
  }
}

TEST_CASE("gradients of padded texts stay right when layers run again") {
  std::mt19937 random(4);
  manual_seed(4);
  const Model model = models::bert(small_bert());
  const Tensor first = models::bert_input(drawn_texts(random, 3)),
               second = models::bert_input(drawn_texts(random, 3));
  const auto gradients_now = [&] {
    model.zero_grad();
    // Both forward passes come before the backward pass.
    const Tensor a = model(first), b = model(second);
    backward(sum(a * a) + sum(b * b * b));
    std::vector<double> all;
    for (const auto& [name, p] : model.parameters())
      for (const double x : p.grad().to_vector<double>()) all.push_back(x);
    return all;
  };
  const auto plain = gradients_now();
  for (auto& [name, module] : model->named_modules())
    module->set_recompute(module->kind() == "BertLayer");
  CHECK(gradients_now() == plain);
  for (auto& [name, module] : model->named_modules()) module->set_recompute(name.empty());
  CHECK(gradients_now() == plain);
}

TEST_CASE("hooks inside a bert see the unfused tensors and change nothing") {
  std::mt19937 random(5);
  auto options = small_bert();
  options.architecture = "BertForMaskedLM";
  const Model model = models::bert(options);
  const Tensor x = models::bert_input(drawn_texts(random, 2));
  const auto plain = model(x).to_vector<double>();
  int calls = 0;
  for (auto& [name, module] : model->named_modules())
    module->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
      ++calls;
      return Tensor();
    });
  CHECK(largest_error(model(x).to_vector<double>(), plain) < 1e-6);
  // All except the holders `encoder` and `layer`, whose modules are called one by one.
  CHECK(calls == static_cast<int>(model->named_modules().size()) - 2);
}

TEST_CASE("links of a bert give what it gives whole, but padding needs all layers in one call") {
  std::mt19937 random(6);
  for (const std::string& architecture : models::bert_architectures()) {
    CAPTURE(architecture);
    auto options = small_bert();
    options.architecture = architecture;
    const Model model = models::bert(options);
    const NoGradGuard no_grad;
    const Tensor ids = ids_of({{1, 2, 3}, {4, 5, 6}});
    Tensor y = ids;
    size_t tensors = 0;
    for (int i = 0; i < model->link_count(); ++i) {
      y = model->run_links(y, i, i + 1);
      tensors += model->link(i).tensors.size();
    }
    CHECK(far(y, model(ids)) < 1e-6);
    CHECK(tensors == model->parameters().size() + (architecture == "BertForMaskedLM" ? 1 : 0));
    const Tensor padded = models::bert_input(drawn_texts(random, 2));
    CHECK(contains(error_of([&] { model->run_links(padded, 0, 2); }), "padding under a pipeline"));
    CHECK(model->run_links(padded, 0, 3).defined());  // all layers, without a head
  }
}

TEST_CASE("what does not fit into a bert is told") {
  auto options = small_bert();
  const Model model = models::bert(options);
  CHECK(contains(error_of([&] {
                   model(zeros({1, 13}, {.dtype = DType::i64}));
                 }),
                 "got 13, want at most 12 (max_position_embeddings)"));
  CHECK(contains(error_of([&] { model(zeros({1, 4})); }), "bert: wrong input; got"));
  CHECK(contains(error_of([&] {
                   model(zeros({1, 4, 5}, {.dtype = DType::i64}));
                 }),
                 "(n, 2 or 3, tokens)"));
  CHECK(contains(error_of([&] { model(full({1, 2, 5}, 2, {DType::i64})); }), "want 0 to 1"));
  CHECK(contains(error_of([&] { generate(model, {{1, 2}}); }), "want a decoder"));
  CHECK(contains(error_of([&] { models::bert_input({}); }), "no texts"));
  CHECK(contains(error_of([&] {
                   models::bert_input({{1, 2}}, {{0}});
                 }),
                 "token types of text 0; got 1, want 2"));
  options.hidden_act = "gelo";
  CHECK(contains(error_of([&] { models::bert(options); }), "did you mean gelu?"));
  options = small_bert();
  options.architecture = "BertForMaskLM";
  CHECK(contains(error_of([&] { models::bert(options); }), "did you mean BertForMaskedLM?"));
  options = small_bert();
  options.pad_token_id = 31;
  CHECK(contains(error_of([&] { models::bert(options); }), "pad_token_id"));
  options.pad_token_id = -1;
  options.mask_padding = true;
  CHECK(contains(error_of([&] { models::bert(options); }), "mask_padding wants a pad_token_id"));
}

TEST_CASE("each dropout of a bert acts in training only") {
  for (auto rate : {&models::BertOptions::hidden_dropout_prob,
                    &models::BertOptions::attention_probs_dropout_prob}) {
    auto options = small_bert();
    options.architecture = "BertForSequenceClassification";
    options.*rate = 0.3;
    const Model model = models::bert(options);
    const Tensor x = ids_of({{1, 2, 3, 4, 5}});
    CHECK(far(model(x), model(x)) > 0);
    model.eval();
    CHECK(far(model(x), model(x)) == 0);
  }
}
