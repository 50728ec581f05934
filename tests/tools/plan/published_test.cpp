// A plan's scaling predictions against published figures; docs/plan.md has them and their sources.
// All are throughput per GPU relative to fewer nodes: they show the cost of distribution, not
// absolute speed.
#include "tests/tools/plan/transformer_cost.h"
#include "tools/plan/candidates.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::plan;

namespace {

// bf16 with f32 masters and AdamW: 16 bytes per parameter.
constexpr BytesPerParameter in_16_bits = {2, 0, 2, 4, 8};
// The same with gradients accumulated and sent in f32.
constexpr BytesPerParameter f32_gradients = {2, 0, 4, 4, 8};

struct Scaling {
  const char* gpu;
  int nodes, more_nodes;
  int zero = 0;
  bool overlaps = true;
};

double efficiency(const ModelCost& model, const Scaling& scaling) {
  const auto each = [&](int nodes) {
    const Spread spread = {.layout = {.data = nodes * 8, .zero_stage = scaling.zero},
                           .overlaps = scaling.overlaps};
    const Cluster cluster = gpu_cluster(scaling.gpu, nodes, 8);
    return plan_for(model, cluster, spread, model.rows).prediction.samples_per_second() / nodes;
  };
  return each(scaling.more_nodes) / each(scaling.nodes);
}

void check_near(double efficiency, double published) {
  CHECK(efficiency == doctest::Approx(published).epsilon(0.1).scale(0));
}

// Two texts of 8192 tokens per GPU.
ModelCost llama_8b(const char* dtype) {
  return transformer_cost({.layers = 32,
                           .features = 4096,
                           .tokens = 8192,
                           .heads = 32,
                           .block_parameters = 218.1e6,
                           .end_parameters = 1050e6,
                           .dtype = dtype},
                          2, {4, 2, 2, 0, 8});
}

ModelCost vit(int64_t layers, int64_t features, int64_t hidden, double others, int64_t rows,
              const BytesPerParameter& bytes) {
  const auto d = static_cast<double>(features), f = static_cast<double>(hidden);
  return transformer_cost({.layers = layers,
                           .features = features,
                           .tokens = 257,
                           .heads = 16,
                           .block_parameters = 4 * d * d + 2 * d * f,
                           .end_parameters = others},
                          rows, bytes);
}

}  // namespace

TEST_CASE("TorchTitan: Llama 3 8B with FSDP scales as published, within 10 %") {
  check_near(efficiency(llama_8b("bf16"), {"h100", 1, 16, 3}), 0.977);
  check_near(efficiency(llama_8b("fp8"), {"h100", 1, 16, 3}), 0.982);
  check_near(efficiency(llama_8b("bf16"), {"h200", 4, 8, 3}), 0.983);
}

// GPT-3 175B, 1152 texts: 8 tensor x 12 pipeline ranks with 8 pieces each, on 96 to 4608 H100.
TEST_CASE("Megatron-LM: GPT-3 175B of a fixed batch scales as published, within 10 %") {
  const auto each = [](int nodes) {
    const int data = nodes * 8 / 96;
    const ModelCost gpt3 = transformer_cost(
        {.layers = 96, .features = 12288, .tokens = 2048, .heads = 96}, 1152 / data, in_16_bits);
    const Spread spread = {.layout = {.data = data, .tensor = 8, .pipeline = 12, .zero_stage = 1},
                           .style = PipelineStyle::interleaved,
                           .microbatches = 1152 / data,
                           .chunks = 8};
    return predict(gpt3, gpu_cluster("h100", nodes, 8), spread).samples_per_second() / nodes;
  };
  check_near(each(576) / each(12), 0.89);
}

// 16 images per A100. Assumes that gradients are summed in f32 (7.4 GB) after backward, which hides
// nothing. With gradients sent during backward nothing would be lost.
TEST_CASE("JAX-Toolbox: ViT-G/14 of small batches scales as published, within 10 %") {
  const ModelCost model = vit(48, 1664, 8192, 3e6, 16, {4, 2, 4, 0, 8});
  CHECK(model.parameters() * 4 == doctest::Approx(7.4e9).epsilon(0.02));
  check_near(efficiency(model, {"a100", 1, 4, 0, false}), 0.88);
  check_near(efficiency(model, {"a100", 1, 8, 0, false}), 0.81);
}

// The batch is not published, so all are tried. Assumes f32 gradients sent during backward. CLIP's
// text half (354 M parameters, 77 tokens) only counts as gradients.
TEST_CASE("NeMo: ViT and CLIP g/14 scale as published, within 10 %") {
  for (const int64_t rows : {16, 32, 64, 128, 256, 512}) {
    CAPTURE(rows);
    const ModelCost image = vit(40, 1408, 6144, 3e6, rows, f32_gradients),
                    clip = vit(40, 1408, 6144, 357e6, rows, f32_gradients);
    check_near(efficiency(image, {"a100", 1, 16}), 0.96);
    check_near(efficiency(image, {"h100", 1, 16}), 0.944);
    check_near(efficiency(clip, {"a100", 1, 16}), 0.965);
    check_near(efficiency(clip, {"h100", 1, 16}), 0.924);
  }
}
