// Greedy generation by a Llama with random weights: tokens a second after the prompt, and how fast
// the weights were read for them.
#include "benchmarks/report.h"
#include "booster/booster.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  int64_t layers = 12, width = 768, batch = 1, tokens = 128, prompt = 8;
  std::string precision = "fp32";
};

Model model_of(const Settings& settings) {
  const DType dtype = settings.precision == "bf16" ? DType::bf16 : DType::f32;
  check(settings.precision == "bf16" || settings.precision == "fp32",
        "--precision: no such precision; got {}{}", settings.precision,
        legal_names(settings.precision, {"fp32", "bf16"}));
  Model model = models::decoder("llama", {.vocab_size = 32000,
                                          .hidden_size = settings.width,
                                          .intermediate_size = settings.width / 3 * 8,
                                          .num_hidden_layers = settings.layers,
                                          .num_attention_heads = settings.width / 64});
  if (dtype != DType::f32) model->to(dtype);
  return model;
}

Result measure(const Benchmark& benchmark, const Settings& settings) {
  const Model model = model_of(settings);
  double bytes = 0;
  for (const auto& [name, tensor] : model.parameters())
    if (!name.ends_with("embed_tokens.weight")) bytes += static_cast<double>(tensor.bytes());
  TokenTexts prompts;
  for (int64_t i = 0; i < settings.batch; ++i) {
    prompts.emplace_back();
    for (int64_t j = 0; j < settings.prompt; ++j)
      prompts.back().push_back(static_cast<int32_t>(100 * i + j));
  }
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&] {
    Clock::time_point first;
    bool begun = false;
    generate(model, prompts, {.max_new_tokens = settings.tokens, .on_token = [&](size_t, int32_t) {
                                if (!begun) first = Clock::now();
                                begun = true;
                                return true;
                              }});
    return std::chrono::duration<double>(Clock::now() - first).count() /
           static_cast<double>(settings.tokens - 1);
  };
  seconds_of();
  std::vector<double> seconds;
  for (int i = 0; i < benchmark.steps(); ++i) seconds.push_back(seconds_of());
  std::sort(seconds.begin(), seconds.end());
  Result result = benchmark.result(
      fmt::format(
          "llama {} x {}, batch {}, {} tokens after {}, {}; a step is one token of each text",
          settings.layers, settings.width, settings.batch, settings.tokens, settings.prompt,
          settings.precision),
      seconds);
  const double median = result["seconds"].get<double>();
  result["tokens_per_s"] = static_cast<double>(settings.batch) / median;
  result["gbytes_per_s"] = 1e-9 * bytes / median;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("generation", "Tokens a second of greedy generation.", 5);
  benchmark.option("--layers", settings.layers, "blocks of the model");
  benchmark.option("--width", settings.width, "hidden size, a multiple of 192");
  benchmark.option("--batch", settings.batch, "texts at once");
  benchmark.option("--tokens", settings.tokens, "new tokens");
  benchmark.option("--prompt", settings.prompt, "tokens before them");
  benchmark.option("--precision", settings.precision, "fp32 or bf16: the weights' dtype");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
