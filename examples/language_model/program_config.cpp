#include "examples/language_model/program_config.h"

#include "examples/language_model/byte_tokenizer.h"

#include <fmt/format.h>

namespace language_model {

using namespace booster;

namespace {

Section data_section() {
  return {
      .name = "data",
      .description = "what the model reads, and how it is cut; without any file, made-up stories",
      .options = {
          or_null(path_option("file", "",
                              "a text, or JSON lines with a text each, which the run tokenises")),
          texts_option("token_files", {}, "files of tokens, which `booster tokenize` writes"),
          or_null(path_option("conversations", "",
                              "JSON lines with messages, or with prompt and completion")),
          or_null(path_option("validation_file", "",
                              "data of the same kind to validate on, instead of a share")),
          or_null(path_option("tokenizer", "",
                              "tokenizer.json or its folder; else the folder of train.pretrained; "
                              "else a token for each byte")),
          or_null(text_option("document_end", "",
                              "the token that ends documents; else eos_token of "
                              "tokenizer_config.json, or <|endoftext|>")),
          integer_option("tokens", 128, between(1, 1'000'000),
                         "in a window or a row; longer conversations are cut"),
          boolean_option("pack", false, "put whole documents, or conversations, into each row"),
          boolean_option("across_documents", false,
                         "attention in such a row sees its other documents too; a pipeline needs "
                         "this"),
          choice_option("answers", "all", {"all", "last"},
                        "of a conversation, from which the model learns"),
          integer_option("batch_size", 16, between(1, 1'000'000), "rows per step and rank"),
          number_option("validation_fraction", 0.1, {0, 1, true, true},
                        "share of the rows, the last ones, kept for validation"),
          integer_option("stories", 2000, between(1, 10'000'000), "made up if there is no file"),
      }};
}

Section train_section() {
  return {.name = "train",
          .description = "length, order and output of the training",
          .options = {
              or_null(path_option("pretrained", "",
                                  "folder of transformers to start from, instead of `model`")),
              integer_option("epochs", 4, between(1, 1'000'000), "passes over the data"),
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
              integer_option("sample_tokens", 200, between(0, 1'000'000),
                             "length of the text that the model writes at the end"),
          }};
}

Section inference_section() {
  return {
      .name = "inference",
      .description = "what a trained model is used for, instead of training",
      .options = {
          or_null(path_option("folder", "",
                              "of the model, as transformers writes it; else that which the "
                              "training has written: output_dir/model")),
          texts_option("evaluate", {},
                       "files of tokens whose perplexity is printed; validation: the data kept"),
          or_null(path_option("choices", "",
                              "JSON lines with context, choices and answer, the right one's "
                              "number from 0")),
          or_null(text_option("prompt", "", "how a text begins that the model goes on with")),
          boolean_option("chat", false, "the prompt is a user's message to answer"),
          integer_option("max_new_tokens", 128, between(1, 1'000'000), "length of that text"),
          number_option("temperature", 0, at_least(0), "of draws; 0: always the most likely token"),
          number_option("top_p", 1, {0, 1, true, false},
                        "draw only from the likeliest that have this probability together"),
      }};
}

// The models' names for the longest text.
std::string positions_key(const Config& config) {
  return config.has("model.n_positions") ? "model.n_positions" : "model.max_position_embeddings";
}

void check_model(const Config& config, Mistakes& mistakes) {
  const auto name = config.get<std::string>("model.name");
  if (name == "bert" || !config.has(positions_key(config))) {
    mistakes.add("model.name",
                 fmt::format("{}; got {}, want gpt2 or one like it",
                             name == "bert" ? "writes no text" : "reads no text", name));
    return;
  }
  const auto vocabulary = config.get<int64_t>("model.vocab_size");
  if (config.options("data").given<std::string>("tokenizer") == std::nullopt &&
      config.options("data").get<std::vector<std::string>>("token_files").empty() &&
      vocabulary < byte_tokens)
    mistakes.add("model.vocab_size",
                 fmt::format("does not hold every byte, {} and {}; got {}, want {}",
                             byte_document_end, byte_turn_end, vocabulary, byte_tokens));
  const auto tokens = config.get<int64_t>("data.tokens");
  const auto positions = config.get<int64_t>(positions_key(config));
  if (tokens > positions)
    mistakes.add(
        "data.tokens",
        fmt::format("more than the model has positions; got {}, want at most {}, which is {}",
                    tokens, positions, positions_key(config)));
}

void check_data(const Config& config, Mistakes& mistakes) {
  const OptionValues data = config.options("data");
  const bool from_tokens = !data.get<std::vector<std::string>>("token_files").empty();
  const int sources = (data.given<std::string>("file") ? 1 : 0) + (from_tokens ? 1 : 0) +
                      (data.given<std::string>("conversations") ? 1 : 0);
  if (sources > 1)
    mistakes.add("data", "several sources; want one of file, token_files and conversations");
  if (sources == 0 && data.given<std::string>("validation_file"))
    mistakes.add("data.validation_file", "the stories are made up; want it beside another source");
}

void check_all(const Config& config, Mistakes& mistakes) {
  if (mistakes.any_in("data")) return;
  check_data(config, mistakes);
  if (!mistakes.any_in("model") && !config.options("train").given<std::string>("pretrained"))
    check_model(config, mistakes);
}

}  // namespace

ProgramConfig program_config() {
  return {.sections = {data_section(), train_section(), inference_section()},
          .arguments = {{.name = "--evaluate",
                         .path = "inference.evaluate",
                         .form = "[FILE ...]",
                         .description = "print the perplexity of files of tokens, or of the data "
                                        "kept for validation",
                         .alone = R"(["validation"])",
                         .several = true},
                        {.name = "--choices",
                         .path = "inference.choices",
                         .form = "FILE",
                         .description = "answer the questions of a file by likelihood"},
                        {.name = "--generate",
                         .path = "inference.prompt",
                         .form = "PROMPT",
                         .description = "go on with a text"}},
          .defaults = {{"model.name", "gpt2"}, {"model.vocab_size", default_vocabulary}},
          .check = check_all};
}

ModelSizes sizes_of(const Model& model) {
  const auto config = report::json_of(config_json_of(model));
  const char* positions =
      config.contains("n_positions") ? "n_positions" : "max_position_embeddings";
  return {config.at("model_type").get<std::string>(), config.at("vocab_size").get<int64_t>(),
          config.at(positions).get<int64_t>()};
}

}  // namespace language_model
