#include "core/nn/generate.h"

#include "core/nn/evaluation.h"
#include "core/nn/key_value_cache.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace booster {
namespace {

void check_options(const TokenTexts& prompts, const GenerateOptions& options) {
  check(!prompts.empty(), "generate: no prompt");
  for (const auto& prompt : prompts)
    check(!prompt.empty(),
          "generate: a prompt without tokens; want at least one, such as the "
          "token that begins texts");
  check(options.max_new_tokens >= 0, "generate: max_new_tokens; got {}, want 0 or more",
        options.max_new_tokens);
  check(options.temperature > 0,
        "generate: temperature; got {}, want more than 0 (sample = false "
        "takes the most likely token)",
        options.temperature);
  check(options.top_k >= 0, "generate: top_k; got {}, want 0 or more", options.top_k);
  check(options.top_p > 0 && options.top_p <= 1, "generate: top_p; got {}, want in (0, 1]",
        options.top_p);
  check(options.repetition_penalty > 0, "generate: repetition_penalty; got {}, want more than 0",
        options.repetition_penalty);
}

void penalise(std::vector<float>& scores, std::span<const int32_t> text, double penalty) {
  std::vector<bool> done(scores.size());
  for (const int32_t token : text) {
    const auto i = static_cast<size_t>(token);
    if (i >= scores.size() || done[i]) continue;
    done[i] = true;
    scores[i] = static_cast<float>(scores[i] < 0 ? scores[i] * penalty : scores[i] / penalty);
  }
}

struct Choice {
  int32_t token;
  double weight;  // not normalised
};

// The tokens that may be drawn, likeliest first.
std::vector<Choice> choices_of(const std::vector<float>& scores, const GenerateOptions& options) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const size_t kept =
      options.top_k > 0 ? std::min(order.size(), static_cast<size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    likelier);
  order.resize(kept);
  const double most = scores[static_cast<size_t>(order[0])];
  std::vector<Choice> choices;
  double all = 0;
  for (const int32_t token : order) {
    const double score = scores[static_cast<size_t>(token)];
    choices.push_back({token, std::exp((score - most) / options.temperature)});
    all += choices.back().weight;
  }
  double sum = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    sum += choices[i].weight;
    if (sum < options.top_p * all) continue;
    choices.resize(i + 1);
    break;
  }
  return choices;
}

// Token ids (texts, tokens), padded on the left by 0.
Tensor padded(const TokenTexts& prompts, std::vector<int64_t>& starts) {
  size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  std::vector<int64_t> ids;
  bool uneven = false;
  for (const auto& prompt : prompts) {
    const size_t start = longest - prompt.size();
    uneven |= start > 0;
    starts.push_back(static_cast<int64_t>(start));
    ids.insert(ids.end(), start, 0);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
  }
  if (!uneven) starts.clear();
  return from_vector(ids, {static_cast<int64_t>(prompts.size()), static_cast<int64_t>(longest)});
}

// The texts while they grow.
class Writer {
 public:
  Writer(const TokenTexts& prompts, const GenerateOptions& options)
      : options_(options),
        generator_(options.seed),
        texts_(prompts),
        results_(prompts.size()),
        ended_(prompts.size(), options.max_new_tokens == 0) {}

  bool done() const {
    return std::ranges::all_of(ended_, [](bool ended) { return ended; });
  }

  // Adds a token to each text that has not ended and returns the next ids (texts, 1).
  Tensor add(const Tensor& logits) {
    const int64_t vocabulary = logits.size(-1);
    const auto scores =
        untracked::cast(untracked::contiguous(logits), DType::f32).to_vector<float>();
    const auto draws = options_.sample ? drawn() : std::vector<double>(texts_.size());
    std::vector<int64_t> next(texts_.size());
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (ended_[i]) continue;
      const std::span<const float> own(&scores[i * static_cast<size_t>(vocabulary)],
                                       static_cast<size_t>(vocabulary));
      const int32_t token = next_token(own, texts_[i], options_, draws[i]);
      next[i] = token;
      end_after(i, token);
    }
    return from_vector(next, {static_cast<int64_t>(next.size()), 1});
  }

  TokenTexts take() { return std::move(results_); }

 private:
  std::vector<double> drawn() {
    return uniform({static_cast<int64_t>(texts_.size())}, 0, 1, {DType::f64}, generator_)
        .to_vector<double>();
  }
  void end_after(size_t i, int32_t token) {
    texts_[i].push_back(token);
    results_[i].push_back(token);
    const bool stops = std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end();
    const bool full = results_[i].size() == static_cast<size_t>(options_.max_new_tokens);
    const bool goes_on = !options_.on_token || options_.on_token(i, token);
    ended_[i] = stops || full || !goes_on;
  }

  const GenerateOptions& options_;
  Generator generator_;
  TokenTexts texts_, results_;
  std::vector<bool> ended_;
};

}  // namespace

int32_t next_token(std::span<const float> scores, std::span<const int32_t> text,
                   const GenerateOptions& options, double draw) {
  std::vector<float> own(scores.begin(), scores.end());
  check(std::ranges::all_of(own, [](float x) { return !std::isnan(x); }),
        "generate: the model's scores are not numbers (nan)");
  if (options.repetition_penalty != 1) penalise(own, text, options.repetition_penalty);
  if (!options.sample)
    return static_cast<int32_t>(std::max_element(own.begin(), own.end()) - own.begin());
  const std::vector<Choice> choices = choices_of(own, options);
  double all = 0;
  for (const Choice& choice : choices) all += choice.weight;
  double rest = draw * all;
  for (const Choice& choice : choices) {
    rest -= choice.weight;
    if (rest < 0) return choice.token;
  }
  return choices.back().token;
}

TokenTexts generate(const TokenModelCall& model, const TokenTexts& prompts,
                    const GenerateOptions& options) {
  check_options(prompts, options);
  const NoGradGuard no_grad;
  std::vector<int64_t> starts;
  Tensor ids = padded(prompts, starts);
  KeyValueCache cache(std::move(starts));
  const CacheScope scope(cache);
  Writer writer(prompts, options);
  while (!writer.done()) {
    const int64_t before = cache.length();
    const Tensor logits = model(ids);
    check(cache.length() == before + ids.size(1),
          "generate: the model does not use the key/value cache; want gpt2 or a decoder");
    ids = writer.add(logits);
  }
  return writer.take();
}

TokenTexts generate(const Model& model, const TokenTexts& prompts, const GenerateOptions& options) {
  const Evaluation evaluation(model.module());
  const auto device = model.parameters().at(0).tensor.device();
  return generate([&](const Tensor& ids) { return model(ids.to(device)); }, prompts, options);
}

}  // namespace booster
