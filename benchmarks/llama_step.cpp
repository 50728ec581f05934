// A training step of a Llama on a batch of random tokens. FLOPs count the products of the layers,
// three times the forward pass, and attention's half of the scores.
#include "benchmarks/training.h"
#include "core/nn/models/decoder.h"

#include <fmt/format.h>
#include <sys/resource.h>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string precision = "bf16", optimizer = "adamw", device = "cpu";
  int64_t batch = 4, tokens = 1024, layers = 12, width = 768, hidden = 2048, heads = 12,
          key_value_heads = 12, words = 32000;
  bool recompute = false, profile = false;
};

double gflop_of(const Settings& s) {
  const int64_t head = s.width / s.heads, keys = s.key_value_heads * head;
  const int64_t block = s.width * (2 * s.width + 2 * keys + 3 * s.hidden);
  const int64_t weights = s.layers * block + s.words * s.width;
  const int64_t scores = s.layers * s.tokens * s.width;  // two products, half of each
  return 1e-9 * 6 * static_cast<double>((weights + scores) * s.batch * s.tokens);
}

Tensor drawn_words(const Settings& settings) {
  const Tensor numbers = uniform({settings.batch, settings.tokens}, 0, double(settings.words));
  return floor(numbers).to(DType::i64);
}

TrainingWork work_of(const Settings& settings) {
  const Device device = chosen_device(settings.device);
  models::DecoderOptions options{.vocab_size = settings.words,
                                 .hidden_size = settings.width,
                                 .intermediate_size = settings.hidden,
                                 .num_hidden_layers = settings.layers,
                                 .num_attention_heads = settings.heads,
                                 .num_key_value_heads = settings.key_value_heads,
                                 .max_position_embeddings = settings.tokens};
  Model model = models::decoder("llama", options);
  model->to(device);
  auto& blocks = dynamic_cast<models::Decoder&>(model.module()).model.layers;
  for (int64_t i = 0; i < blocks.size(); ++i) blocks[i].set_recompute(settings.recompute);
  return {.text = fmt::format("llama, {} blocks of {}, {} words, {} x {} tokens, training step in "
                              "{} with {}{}",
                              settings.layers, settings.width, settings.words, settings.batch,
                              settings.tokens, settings.precision,
                              optimizer_choice(settings.optimizer).text,
                              settings.recompute ? ", recomputation" : ""),
          .model = model,
          .criterion = Criterion([](const Tensor& logits, const Tensor& target) {
            return cross_entropy(flatten(logits, 0, 1), flatten(target));
          }),
          .input = drawn_words(settings).to(device),
          .target = drawn_words(settings).to(device),
          .precision = settings.precision,
          .optimizer = settings.optimizer,
          .profile = settings.profile,
          .lr = 1e-4,
          .gflop = gflop_of(settings)};
}

Result measured(const Benchmark& benchmark, const Settings& settings) {
  Result result = measure_training(benchmark, work_of(settings));
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  result["resident_bytes"] = usage.ru_maxrss * 1024;
  result["tokens_per_s"] =
      static_cast<double>(settings.batch * settings.tokens) / result["seconds"].get<double>();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("llama_step", "A training step of a Llama.", 3);
  benchmark.option("--batch", settings.batch, "texts in a step");
  benchmark.option("--tokens", settings.tokens, "tokens of a text");
  benchmark.option("--layers", settings.layers, "blocks");
  benchmark.option("--width", settings.width, "features");
  benchmark.option("--hidden", settings.hidden, "features inside of the MLP");
  benchmark.option("--heads", settings.heads, "heads of queries");
  benchmark.option("--key_value_heads", settings.key_value_heads, "heads of keys");
  benchmark.option("--words", settings.words, "size of the vocabulary");
  benchmark.option("--device", settings.device, "cpu or cuda");
  benchmark.option("--precision", settings.precision, "fp32, fp16, bf16 or fp8");
  benchmark.option("--optimizer", settings.optimizer, "sgd, sgd_momentum or adamw");
  benchmark.flag("--recompute", settings.recompute, "computes each block again in backward");
  benchmark.flag("--profile", settings.profile, profile_meaning);
  return benchmark.run(argc, argv, [&] { return measured(benchmark, settings); });
}
