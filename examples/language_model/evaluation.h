// Measures of a trained model. All ranks call these functions alike.
#pragma once

#include <booster/booster.h>

#include <optional>
#include <string>

namespace language_model {

// The mean over the tokens that count of cross entropy. Its divisor is their number, so that
// loss_mean "rows" joins batches in which different numbers count.
booster::Criterion next_token_loss();

// Returns each row's sum of the losses of the tokens that count, in f64.
booster::Tensor row_losses(const booster::Tensor& logits, const booster::Tensor& target);

struct Evaluator {
  const booster::Booster& booster;
  const booster::BoostedModel& model;
  const booster::World& world;
  booster::Device device;
  int64_t batch_size;
};

struct Likelihood {
  double loss = 0;  // mean over the tokens, in nats
  int64_t tokens = 0;
};
// Evaluates each sample once, on any number of ranks. Returns nothing if a stop signal comes.
std::optional<Likelihood> likelihood_of(const Evaluator& evaluator, const booster::Dataset& data);

struct ChoicesResult {
  int64_t questions = 0;
  double accuracy = 0;           // by the sum of the logarithms of a choice's probabilities
  double accuracy_per_byte = 0;  // by that sum over the choice's bytes
};
// Answers each line {"context": text, "choices": [text, ...], "answer": number from 0} with the
// likeliest choice after the context. Throws an Error of kind data, with file and line, for other
// lines and for questions longer than `positions` tokens.
ChoicesResult answer_choices(const Evaluator& evaluator, const booster::Tokenizer& tokenizer,
                             const std::string& file, int64_t positions);

}  // namespace language_model
