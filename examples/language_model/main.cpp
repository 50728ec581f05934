// Trains a GPT-2, or another language model, on the bytes of a text as described by a JSON file:
//   build/examples/language_model --config examples/language_model_gpt2.json [--set data.file=book.txt ...]
#include "examples/language_model/trainer.h"

#include <fmt/format.h>

using namespace booster;

namespace {

constexpr int64_t byte_values = 256;

Section data_section() {
  return {.name = "data",
          .description = "the text and how it is cut",
          .options = {
              or_null(path_option("file", "", "text to train on; without it, one is made up")),
              integer_option("tokens", 128, between(1, 1'000'000), "bytes in a window"),
              integer_option("batch_size", 16, between(1, 1'000'000), "windows per step and rank"),
              number_option("validation_fraction", 0.1, {0, 1, true, true},
                            "share of the text, its end, kept for validation"),
          }};
}

Section train_section() {
  return {.name = "train",
          .description = "length, order and output of the training",
          .options = {
              integer_option("epochs", 4, between(1, 1'000'000), "passes over the text"),
              integer_option("max_steps", 0, at_least(0),
                             "ends the training after so many steps; 0: no limit"),
              integer_option("seed", 42, at_least(0), "of initial weights, dropout and order"),
              integer_option("accumulate", 1, between(1, 1'000'000),
                             "batches whose gradients make one step; an epoch's last step takes "
                             "those that are left"),
              number_option("clip_grad_norm", 1, at_least(0), "largest gradient norm; 0: none"),
              integer_option("log_every", 10, between(1, 1'000'000'000),
                             "steps between lines of metrics.jsonl"),
              path_option("output_dir", "out/language_model",
                          "folder for everything the run writes; a rerun goes on from there"),
              integer_option("checkpoint_every", 500, at_least(0),
                             "steps between checkpoints; 0: only at the end"),
              integer_option("sample_bytes", 300, between(0, 1'000'000),
                             "length of the text that the model writes at the end"),
          }};
}

void check_model(const Config& config, Mistakes& mistakes) {
  if (mistakes.any_in("model") || mistakes.any_in("data")) return;
  // GPT-2's name for the longest text, or the decoders'.
  const std::string longest =
      config.has("model.n_positions") ? "model.n_positions" : "model.max_position_embeddings";
  if (!config.has(longest)) {
    mistakes.add("model.name", fmt::format("reads no text; got {}, want gpt2 or one like it",
                                           config.get<std::string>("model.name")));
    return;
  }
  const auto vocabulary = config.get<int64_t>("model.vocab_size");
  if (vocabulary < byte_values)
    mistakes.add("model.vocab_size",
                 fmt::format("does not hold every byte; got {}, want {}", vocabulary, byte_values));
  const auto tokens = config.get<int64_t>("data.tokens");
  const auto positions = config.get<int64_t>(longest);
  if (tokens > positions)
    mistakes.add(
        "data.tokens",
        fmt::format("more than the model has positions; got {}, want at most {}, which is {}",
                    tokens, positions, longest));
}

}  // namespace

int main(int argc, char** argv) {
  const ProgramConfig program = {
      .sections = {data_section(), train_section()},
      .defaults = {{"model.name", "gpt2"}, {"model.vocab_size", byte_values}},
      .check = check_model};
  const Config config = Config::from_args(argc, argv, program);
  const World world = launch_from_env();
  return language_model::Trainer(config, world).run();
}
