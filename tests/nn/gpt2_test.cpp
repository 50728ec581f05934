// GPT-2 by itself. booster/checkpoint/gpt2_files_test.cpp compares it with Hugging Face's files and
// values.
#include "core/autograd/tape.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/module.h"
#include "core/tensor/absence.h"
#include "tests/capture_part.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t vocabulary = 31, positions = 12;

models::Gpt2Options small() {
  return {.vocab_size = vocabulary,
          .n_positions = positions,
          .embd_pdrop = 0,
          .attn_pdrop = 0,
          .resid_pdrop = 0,
          .n_embd = 24,
          .n_layer = 2,
          .n_head = 3};
}

Model small_model(uint64_t seed) {
  manual_seed(seed);
  return models::gpt2("gpt2", small());
}

Tensor ids(std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return from_vector(values, {1, n});
}

// Returns one sequence of `tokens` ids.
Tensor some_ids(int64_t tokens, int64_t step = 7) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tokens; ++i) values.push_back((i * step + 3) % vocabulary);
  return ids(values);
}

}  // namespace

TEST_CASE("gpt2 has Hugging Face's parameter names and initial distributions") {
  manual_seed(1);
  models::Gpt2Options options = small();
  options.vocab_size = 500;
  options.n_positions = 200;
  options.n_embd = 96;
  options.n_layer = 8;
  const Parameters parameters = models::gpt2("gpt2", options).parameters();
  CHECK(parameters.size() == 2 + 8 * 12 + 2);
  CHECK(parameters[0].name == "transformer.wte.weight");
  CHECK(parameters[1].name == "transformer.wpe.weight");
  CHECK(parameters[2].name == "transformer.h.0.ln_1.weight");
  CHECK(parameters[4].name == "transformer.h.0.attn.c_attn.weight");
  CHECK(parameters[4].tensor.shape() == Shape{288, 96});
  CHECK(parameters.back().name == "transformer.ln_f.bias");
  for (const auto& [name, p] : parameters) {
    CAPTURE_PART(name);
    const NoGradGuard no_grad;
    const double deviation = norm(p).item() / std::sqrt(double(p.numel()));
    if (p.ndim() == 2) {
      const bool ends_branch = name.ends_with("c_proj.weight");
      CHECK(deviation == doctest::Approx(ends_branch ? 0.02 / 4 : 0.02).epsilon(0.05));
    } else {
      CHECK(amin(p).item() == (name.ends_with("weight") ? 1 : 0));
      CHECK(amax(p).item() == amin(p).item());
    }
  }
}

TEST_CASE("gpt2 takes every name, and options override what a name fixes") {
  // Results of Hugging Face's num_parameters().
  const std::vector<int64_t> counts = {124439808, 354823168, 774030080, 1557611200};
  const auto names = models::gpt2_names();
  REQUIRE(names.size() == counts.size());
  const LazyInit no_memory;
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(models::gpt2(names[i])->parameter_count() == counts[i]);
  }
  CHECK(error_of([] { models::gpt2("gpt2-larg"); }).find("did you mean gpt2-large") !=
        std::string::npos);
  CHECK(error_of([] { models::gpt2("gpt2", {.n_head = 5}); }).find("5 heads of 768") !=
        std::string::npos);
  CHECK(error_of([] { models::gpt2("gpt2", {.n_positions = 0}); }).find("n_positions 0") !=
        std::string::npos);
}

TEST_CASE("what does not fit into a gpt2 is told") {
  const Model model = small_model(2);
  CHECK(model(some_ids(positions)).shape() == Shape{1, positions, vocabulary});
  CHECK(error_of([&] { model(some_ids(positions + 1)); }) ==
        "gpt2: more tokens than positions; got 13, want at most 12 (n_positions)");
  CHECK_THROWS_WITH_AS(model(zeros({1, 4})), doctest::Contains("want ids of tokens (n, tokens)"),
                       Error);
  CHECK_THROWS_WITH_AS(model(from_vector(std::vector<int64_t>{1, 2}, {2})),
                       doctest::Contains("want ids of tokens (n, tokens)"), Error);
  CHECK_THROWS_WITH_AS(model(ids({1, vocabulary})), doctest::Contains("want 0 to 30"), Error);
}

TEST_CASE("a gpt2's logits depend on what stands before a token, and on nothing behind it") {
  const Model model = small_model(3);
  const int64_t tokens = 9;
  const auto before = model(some_ids(tokens)).to_vector<double>();
  for (int64_t changed = 0; changed < tokens; ++changed) {
    CAPTURE(changed);
    std::vector<int64_t> other = some_ids(tokens).to_vector<int64_t>();
    other[changed] = (other[changed] + 1) % vocabulary;
    const auto after = model(ids(other)).to_vector<double>();
    for (int64_t i = 0; i < tokens; ++i) {
      const auto row = [&](const std::vector<double>& logits) {
        return std::vector<double>(logits.begin() + i * vocabulary,
                                   logits.begin() + (i + 1) * vocabulary);
      };
      CHECK((row(before) == row(after)) == (i < changed));
    }
  }
}

TEST_CASE("hooks inside a gpt2 see the unfused tensors and change nothing") {
  const Model model = small_model(4);
  const auto plain = model(some_ids(8)).to_vector<double>();
  int calls = 0;
  for (auto& [name, module] : model->named_modules())
    module->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
      ++calls;
      return Tensor();
    });
  CHECK(largest_error(model(some_ids(8)).to_vector<double>(), plain) < 1e-6);
  const int modules = static_cast<int>(model->named_modules().size());
  CHECK(calls == modules - 1);  // all except `h`, whose modules are called one by one
}

TEST_CASE("each dropout of a gpt2 acts in training only") {
  for (auto rate : {&models::Gpt2Options::embd_pdrop, &models::Gpt2Options::attn_pdrop,
                    &models::Gpt2Options::resid_pdrop}) {
    models::Gpt2Options options = small();
    options.*rate = 0.3;
    manual_seed(5);
    const Model model = models::gpt2("gpt2", options);
    const auto logits = [&] { return model(some_ids(8)).to_vector<double>(); };
    CHECK(logits() != logits());
    model.eval();
    CHECK(logits() == logits());
    CHECK(largest_error(logits(), small_model(5)(some_ids(8)).to_vector<double>()) < 1e-6);
  }
}

TEST_CASE("a part of a gpt2's heads is computed as in the whole attention") {
  // The first and the last of three heads: the rows of c_attn and the columns of c_proj that a rank
  // would hold.
  const auto options = models::gpt2_options("gpt2", small());
  manual_seed(6);
  models::Gpt2Attention whole(options, 0), part(options, 0);
  const int64_t features = 24, size = 8;
  const NoGradGuard no_grad;
  const auto kept = [&](int64_t begin) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < features; ++i)
      if (i / size != 1) rows.push_back(begin + i);
    return rows;
  };
  std::vector<int64_t> rows;
  for (const int64_t begin : {int64_t{0}, features, 2 * features})
    for (const int64_t row : kept(begin)) rows.push_back(row);
  const Tensor index = from_vector(rows, {static_cast<int64_t>(rows.size())});
  const std::vector<int64_t> columns = kept(0);
  const Tensor columns_index = from_vector(columns, {static_cast<int64_t>(columns.size())});
  replace_(part.c_attn.weight, index_select(whole.c_attn.weight, 0, index));
  replace_(part.c_attn.bias, index_select(whole.c_attn.bias, 0, index));
  replace_(part.c_proj.weight, index_select(whole.c_proj.weight, 1, columns_index));
  replace_(part.c_proj.bias, whole.c_proj.bias);
  // In the whole model the middle head is masked after attention.
  std::vector<float> mask(features, 1);
  for (int64_t i = size; i < 2 * size; ++i) mask[i] = 0;
  whole.c_proj.weight.detach().copy_(whole.c_proj.weight * from_vector(mask, {features}));
  const Tensor x = hashed({2, 5, features}, 9);
  CHECK(largest_error(part(x).to_vector<double>(), whole(x).to_vector<double>()) < 1e-6);
}
