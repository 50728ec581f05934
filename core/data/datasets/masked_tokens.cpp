#include "core/data/datasets/texts.h"

#include "platform/error.h"

#include <algorithm>
#include <bit>

namespace booster {
namespace {

constexpr int64_t not_hidden = -100;  // cross_entropy's ignore_index

void check_token(const char* what, int64_t token, const MaskedTokensOptions& options) {
  check(token >= 0 && token < options.vocab_size,
        "MaskedTokens: {}; got {}, want a token below {} (vocab_size)", what, token,
        options.vocab_size);
}

bool is_share(double x) { return x >= 0 && x <= 1; }

}  // namespace

MaskedTokens::MaskedTokens(std::shared_ptr<const Dataset> dataset, MaskedTokensOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  const MaskedTokensOptions& o = options_;
  constexpr int64_t most = int64_t{1} << 32;
  check(o.vocab_size >= 1 && o.vocab_size <= most, "MaskedTokens: vocab_size; got {}, want 1 to {}",
        o.vocab_size, most);
  check_token("mask_token", o.mask_token, o);
  if (o.first_token) check_token("first_token", *o.first_token, o);
  if (o.last_token) check_token("last_token", *o.last_token, o);
  check(o.mlm_probability > 0 && o.mlm_probability <= 1,
        "MaskedTokens: mlm_probability; got {}, want in (0, 1]", o.mlm_probability);
  constexpr double rounding = 1e-9;
  check(is_share(o.mask_replace_prob) && is_share(o.random_replace_prob) &&
            o.mask_replace_prob + o.random_replace_prob <= 1 + rounding,
        "MaskedTokens: mask_replace_prob {} and random_replace_prob {}; want shares of at most 1 "
        "together",
        o.mask_replace_prob, o.random_replace_prob);
}

std::vector<int64_t> MaskedTokens::tokens_of(int64_t index, RandomStream& random) const {
  const Sample sample = dataset_->load(index, random);
  const Tensor tokens = empty(sample.shape(), {sample.dtype()});
  sample.write(tokens.data());
  check(tokens.ndim() == 1 && !is_floating(tokens.dtype()),
        "MaskedTokens: a sample is {} of {}; want whole numbers (n)", tokens.shape(),
        name_of(tokens.dtype()));
  return tokens.to_vector<int64_t>();
}

Sample MaskedTokens::load(int64_t index, RandomStream& random) const {
  const MaskedTokensOptions& o = options_;
  std::vector<int64_t> tokens = tokens_of(index, random), candidates;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (std::ranges::find(o.special_tokens, tokens[i]) == o.special_tokens.end())
      candidates.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> labels(tokens.size(), not_hidden);
  const auto hide = [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    labels[i] = tokens[i];
    const double how = random.uniform();
    if (how < o.mask_replace_prob)
      tokens[i] = o.mask_token;
    else if (how < o.mask_replace_prob + o.random_replace_prob)
      tokens[i] = random.below(o.vocab_size);
  };
  bool is_any = false;
  for (const int64_t i : candidates) {
    if (random.uniform() >= o.mlm_probability) continue;
    hide(i);
    is_any = true;
  }
  // The mean loss over no token would be nan.
  if (!is_any && !candidates.empty())
    hide(candidates[static_cast<size_t>(random.below(static_cast<int64_t>(candidates.size())))]);
  const auto add = [&](auto place, int64_t token) {
    tokens.insert(place(tokens), token);
    labels.insert(place(labels), not_hidden);
  };
  if (o.first_token) add([](auto& all) { return all.begin(); }, *o.first_token);
  if (o.last_token) add([](auto& all) { return all.end(); }, *o.last_token);
  const Shape shape = {static_cast<int64_t>(tokens.size())};
  return {from_vector(tokens, shape), from_vector(labels, shape)};
}

DatasetIdentity MaskedTokens::identity() const {
  const MaskedTokensOptions& o = options_;
  DatasetIdentity identity = dataset_->identity();
  Fingerprint fingerprint;
  fingerprint.add(static_cast<int64_t>(identity.fingerprint));
  for (const int64_t token :
       {o.vocab_size, o.mask_token, o.first_token.value_or(-1), o.last_token.value_or(-1)})
    fingerprint.add(token);
  for (const int64_t token : o.special_tokens) fingerprint.add(token);
  for (const double share : {o.mlm_probability, o.mask_replace_prob, o.random_replace_prob})
    fingerprint.add(std::bit_cast<int64_t>(share));
  identity.kind = "masked " + identity.kind;
  identity.fingerprint = fingerprint.value();
  return identity;
}

}  // namespace booster
