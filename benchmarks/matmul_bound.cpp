// Prints this machine's peak rates: GFLOP/s of oneDNN's matmul, and our kernel's relative rate. The
// shapes are from ViT-B/16 (batch 8), ViT-Ti/16 (batch 16) and a stack of 4096 x 4096 layers (batch
// 512).
#include "benchmarks/bound.h"
#include "benchmarks/report.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <string>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Workload {
  std::string name;
  std::vector<MatmulShape> shapes;
};

std::vector<Workload> workloads(DType dtype) {
  return {{"vit_base_patch16_224 batch 8", vit_shapes({.width = 768, .depth = 12}, 8, dtype)},
          {"vit_tiny_patch16_224 batch 16", vit_shapes({.width = 192, .depth = 12}, 16, dtype)},
          {"linear 3 x 4096 batch 512", linear_shapes(512, 4096, 4096, dtype, 3)}};
}

std::string layout_of(const MatmulShape& shape) {
  return shape.a_transposed ? "a^T b" : shape.b_transposed ? "a b^T" : "a b";
}

Result entry_for(const std::string& work, const MatmulShape& shape, int runs) {
  const ShapeTimes times = measure(shape, runs);
  const double gflop = shape.gflop() / static_cast<double>(shape.count);
  return {{"work", work},
          {"dtype", name_of(shape.dtype)},
          {"layout", layout_of(shape)},
          {"m", shape.m},
          {"n", shape.n},
          {"k", shape.k},
          {"count", shape.count},
          {"seconds_min", times.kernel},
          {"gflop", gflop},
          {"gflops", gflop / times.kernel},
          {"bound_gflops", gflop / times.library},
          {"of_bound", times.library / times.kernel}};
}

// The time of a list is the sum of the shortest runs of its shapes.
Result measure_all(const Benchmark& benchmark, const std::vector<DType>& dtypes) {
  Result shapes_result = Result::array();
  double seconds = 0, bound_seconds = 0, gflop = 0;
  for (const DType dtype : dtypes)
    for (const auto& [name, shapes] : workloads(dtype))
      for (const MatmulShape& shape : shapes) {
        const auto& entry = shapes_result.emplace_back(entry_for(name, shape, benchmark.steps()));
        seconds += entry["seconds_min"].get<double>() * static_cast<double>(shape.count);
        bound_seconds += shape.gflop() / entry["bound_gflops"].get<double>();
        gflop += shape.gflop();
      }
  Result result = benchmark.result("matrix products of training steps", {seconds});
  add_flops(result, gflop, gflop / bound_seconds);
  result["shapes"] = std::move(shapes_result);
  return result;
}

void print_table(const Result& result) {
  fmt::print("{}, {} threads, {}, oneDNN {}\n", result["machine"].get<std::string>(),
             result["threads"].get<int>(), result["variant"].get<std::string>(),
             result["versions"]["onednn"].get<std::string>());
  fmt::print("{:<30} {:<5} {:<6} {:>5} {:>5} {:>5} {:>8} {:>8} {:>6}\n", "work", "dtype", "layout",
             "m", "n", "k", "oneDNN", "kernel", "ratio");
  for (const auto& entry : result["shapes"])
    fmt::print("{:<30} {:<5} {:<6} {:>5} {:>5} {:>5} {:>8.1f} {:>8.1f} {:>6.2f}\n",
               entry["work"].get<std::string>(), entry["dtype"].get<std::string>(),
               entry["layout"].get<std::string>(), entry["m"].get<int64_t>(),
               entry["n"].get<int64_t>(), entry["k"].get<int64_t>(),
               entry["bound_gflops"].get<double>(), entry["gflops"].get<double>(),
               entry["of_bound"].get<double>());
}

std::vector<DType> dtypes_of(const std::string& name) {
  if (name == "f32" || name == "fp32") return {DType::f32};
  if (name == "bf16") return {DType::bf16};
  check(name == "all", "--dtype: no such dtype; got {}{}", name,
        legal_names(name, {"all", "f32", "bf16"}));
  return {DType::f32, DType::bf16};
}

}  // namespace

int main(int argc, char** argv) {
  std::string dtype = "all";
  Benchmark benchmark("matmul_bound", "GFLOP/s of oneDNN's matmul and of ours, shape by shape.", 5);
  benchmark.option("--dtype", dtype, "f32, bf16 or all");
  return benchmark.run(
      argc, argv, [&] { return measure_all(benchmark, dtypes_of(dtype)); }, print_table);
}
