#include "core/nn/generate.h"

#include "core/nn/evaluation.h"
#include "core/nn/key_value_cache.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <cmath>

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
  check(options.temperature > 0 && std::isfinite(options.temperature),
        "generate: temperature; got {}, want a finite number above 0 (sample = false "
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

struct ByScore {
  bool operator()(const Choice& a, const Choice& b) const {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  }
};

double sum_of(const std::vector<Choice>& choices) {
  double sum = 0;
  for (const Choice& choice : choices) sum += choice.weight;
  return sum;
}

// Keeps the k likeliest and those that are as likely as the last of them.
void keep_top_k(std::vector<Choice>& choices, int64_t k) {
  const auto kept = static_cast<size_t>(k);
  if (kept == 0 || kept >= choices.size()) return;
  std::nth_element(choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(kept - 1),
                   choices.end(), ByScore());
  const double least = choices[kept - 1].weight;
  std::erase_if(choices, [&](const Choice& choice) { return choice.weight < least; });
}

// Keeps the fewest of the likeliest whose weights reach the share p of all. They are sorted only as
// far as needed: few of a vocabulary's tokens are likely.
void keep_top_p(std::vector<Choice>& choices, double p) {
  if (p >= 1) return;
  const double wanted = p * sum_of(choices);
  double sum = 0;
  for (size_t sorted = 0, next = 64; sorted < choices.size(); next *= 4) {
    const size_t end = std::min(next, choices.size());
    const auto at = [&](size_t i) { return choices.begin() + static_cast<std::ptrdiff_t>(i); };
    std::partial_sort(at(sorted), at(end), choices.end(), ByScore());
    for (; sorted < end; ++sorted) {
      sum += choices[sorted].weight;
      if (sum >= wanted) return choices.resize(sorted + 1);
    }
  }
}

// The tokens that may be drawn, with their weights.
std::vector<Choice> choices_of(std::span<const float> scores, const GenerateOptions& options) {
  const float most = *std::ranges::max_element(scores);
  check(std::isfinite(most), "generate: the model's highest score is {}; want a finite number",
        most);
  // By scores first: different ones may have the same weight, far below the likeliest.
  std::vector<Choice> choices(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) choices[i] = {static_cast<int32_t>(i), scores[i]};
  keep_top_k(choices, options.top_k);
  for (Choice& choice : choices)
    choice.weight = std::exp((choice.weight - most) / options.temperature);
  keep_top_p(choices, options.top_p);
  return choices;
}

int32_t likeliest(std::span<const float> scores) {
  size_t best = 0;
  for (size_t i = 1; i < scores.size(); ++i)
    if (scores[i] > scores[best]) best = i;
  return static_cast<int32_t>(best);
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
  Writer(const SharedTokenModel& model, const TokenTexts& prompts, const GenerateOptions& options)
      : model_(model),
        options_(options),
        generator_(options.seed),
        texts_(prompts),
        results_(prompts.size()),
        ended_(prompts.size(), options.max_new_tokens == 0) {}

  bool done() const {
    return std::ranges::all_of(ended_, [](bool ended) { return ended; });
  }

  // Adds a token to each text that has not ended and returns the next ids (texts, 1).
  Tensor add(const Tensor& logits) {
    // Also where they decide nothing: reading gathers logits that ranks hold by columns.
    const auto scores =
        untracked::cast(untracked::contiguous(logits), DType::f32).to_vector<float>();
    std::vector<int64_t> steps(2 * texts_.size());
    if (model_.is_first) choose(scores, steps);
    if (model_.agree) model_.agree(steps);
    if (!model_.is_first) follow(steps);
    std::vector<int64_t> next;
    for (size_t i = 0; i < texts_.size(); ++i) next.push_back(steps[2 * i]);
    return from_vector(next, {static_cast<int64_t>(next.size()), 1});
  }

  TokenTexts take() { return std::move(results_); }

 private:
  static constexpr int64_t failed = -1;  // instead of a token: the first rank throws

  // Each text's token and whether it ends there; 0 and true for a text that has ended.
  void choose(const std::vector<float>& scores, std::vector<int64_t>& steps) try {
    const size_t vocabulary = scores.size() / texts_.size();
    const auto draws = options_.sample ? drawn() : std::vector<double>(texts_.size());
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!ended_[i]) {
        const std::span<const float> own(&scores[i * vocabulary], vocabulary);
        const int32_t token = next_token(own, texts_[i], options_, draws[i]);
        steps[2 * i] = token;
        ended_[i] = ends_after(i, token);
      }
      steps[2 * i + 1] = ended_[i];
    }
  } catch (...) {
    std::ranges::fill(steps, failed);
    if (model_.agree) model_.agree(steps);
    throw;
  }

  void follow(const std::vector<int64_t>& steps) {
    if (steps[0] == failed)
      fail_run("generate: the first of the ranks that share the model failed; its error says why");
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!ended_[i]) ends_after(i, static_cast<int32_t>(steps[2 * i]));
      ended_[i] = steps[2 * i + 1] != 0;
    }
  }

  std::vector<double> drawn() {
    return uniform({static_cast<int64_t>(texts_.size())}, 0, 1, {DType::f64}, generator_)
        .to_vector<double>();
  }
  bool ends_after(size_t i, int32_t token) {
    texts_[i].push_back(token);
    results_[i].push_back(token);
    const bool stops = std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end();
    const bool full = results_[i].size() == static_cast<size_t>(options_.max_new_tokens);
    const bool goes_on = !options_.on_token || options_.on_token(i, token);
    return stops || full || !goes_on;
  }

  const SharedTokenModel& model_;
  const GenerateOptions& options_;
  Generator generator_;
  TokenTexts texts_, results_;
  std::vector<bool> ended_;
};

}  // namespace

int32_t next_token(std::span<const float> scores, std::span<const int32_t> text,
                   const GenerateOptions& options, double draw) {
  check(std::ranges::none_of(scores, [](float x) { return std::isnan(x); }),
        "generate: the model's scores are not numbers (nan)");
  std::vector<float> penalised;
  if (options.repetition_penalty != 1) {
    penalised.assign(scores.begin(), scores.end());
    penalise(penalised, text, options.repetition_penalty);
    scores = penalised;
  }
  if (!options.sample) return likeliest(scores);
  const std::vector<Choice> choices = choices_of(scores, options);
  double rest = draw * sum_of(choices);
  int32_t last = choices.front().token;
  for (const Choice& choice : choices) {
    if (choice.weight == 0) continue;
    last = choice.token;
    rest -= choice.weight;
    if (rest < 0) break;
  }
  return last;
}

TokenTexts generate(const SharedTokenModel& model, const TokenTexts& prompts,
                    const GenerateOptions& options) {
  check_options(prompts, options);
  const NoGradGuard no_grad;
  std::vector<int64_t> starts;
  Tensor ids = padded(prompts, starts);
  // The last token of a text is never read.
  KeyValueCache cache(std::move(starts),
                      ids.size(1) + std::max<int64_t>(options.max_new_tokens - 1, 0));
  const CacheScope scope(cache);
  Writer writer(model, prompts, options);
  while (!writer.done()) {
    const int64_t before = cache.length();
    const Tensor logits = model.logits(ids);
    check(cache.length() == before + ids.size(1),
          "generate: the model does not use the key/value cache; want gpt2 or a decoder");
    ids = writer.add(logits);
  }
  return writer.take();
}

TokenTexts generate(const TokenModelCall& model, const TokenTexts& prompts,
                    const GenerateOptions& options) {
  return generate(SharedTokenModel{.logits = model, .agree = {}}, prompts, options);
}

TokenTexts generate(const Model& model, const TokenTexts& prompts, const GenerateOptions& options) {
  const Evaluation evaluation(model.module());
  const auto device = model.parameters().at(0).tensor.device();
  const TokenModelCall logits = [&](const Tensor& ids) { return model(ids.to(device)); };
  return generate(logits, prompts, options);
}

}  // namespace booster
