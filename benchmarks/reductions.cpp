// Times every reduction along every kind of dimension: the first, a middle one, the last, several.
// The inputs have few or many numbers, are dense, transposed or sliced, and have several dtypes.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "booster/booster.h"

#include <fmt/format.h>

#include <functional>

using namespace booster;
using namespace booster::benchmarks;

namespace {

using Dims = std::vector<int64_t>;

struct Layout {
  const char* name;
  std::function<Tensor(DType)> make;
  Dims dims;
};

Tensor drawn(const Shape& shape, DType dtype) {
  return cast(normal(shape, 0, is_floating(dtype) ? 1 : 100), dtype);
}

// The same as LAYOUTS in peers/torch_peer.py.
const Layout layouts[] = {
    {"all of 1048576", [](DType d) { return drawn({1 << 20}, d); }, {0}},
    {"first of 1024 x 1024",
     [](DType d) {
       return drawn({1024, 1024}, d);
     },
     {0}},
    {"last of 1024 x 1024",
     [](DType d) {
       return drawn({1024, 1024}, d);
     },
     {1}},
    {"middle of 16 x 64 x 1024",
     [](DType d) {
       return drawn({16, 64, 1024}, d);
     },
     {1}},
    {"middle of 8 x 8 x 4096",
     [](DType d) {
       return drawn({8, 8, 4096}, d);
     },
     {1}},
    {"first and third of 16 x 32 x 64 x 32",
     [](DType d) {
       return drawn({16, 32, 64, 32}, d);
     },
     {0, 2}},
    {"first of 100000 x 8",
     [](DType d) {
       return drawn({100000, 8}, d);
     },
     {0}},
    {"last of 100000 x 8",
     [](DType d) {
       return drawn({100000, 8}, d);
     },
     {1}},
    {"last of 1024 x 1024 transposed",
     [](DType d) {
       return transpose(drawn({1024, 1024}, d), 0, 1);
     },
     {1}},
    {"first of half the columns of 1024 x 1024",
     [](DType d) {
       return narrow(drawn({1024, 1024}, d), 1, 0, 512);
     },
     {0}},
    {"last of 64 x 64",
     [](DType d) {
       return drawn({64, 64}, d);
     },
     {1}},
    {"first of 64 x 64",
     [](DType d) {
       return drawn({64, 64}, d);
     },
     {0}},
};

struct Reduction {
  const char* name;
  std::function<void(const Tensor&, const Dims&)> run;
  bool takes_several = true;
  bool takes_integers = false;
};

// Ops that take one dimension have no time for several.
const Reduction reductions[] = {
    {"sum", [](const Tensor& x, const Dims& dims) { sum(x, dims); }, true, true},
    {"mean", [](const Tensor& x, const Dims& dims) { mean(x, dims); }},
    {"amax", [](const Tensor& x, const Dims& dims) { amax(x, dims); }, true, true},
    {"argmax", [](const Tensor& x, const Dims& dims) { argmax(x, dims[0]); }, false, true},
    {"argmin", [](const Tensor& x, const Dims& dims) { argmin(x, dims[0]); }, false},
    {"max", [](const Tensor& x, const Dims& dims) { max(x, dims[0]); }, false},
    {"var", [](const Tensor& x, const Dims& dims) { var(x, dims); }},
    {"norm", [](const Tensor& x, const Dims& dims) { norm(x, dims); }},
    {"logsumexp", [](const Tensor& x, const Dims& dims) { logsumexp(x, dims); }},
    {"softmax", [](const Tensor& x, const Dims& dims) { softmax(x, dims[0]); }, false},
    {"cumsum", [](const Tensor& x, const Dims& dims) { cumsum(x, dims[0]); }, false},
};

Result measure(const Benchmark& benchmark, const std::string& only) {
  const NoGradGuard no_grad;
  Result microseconds = Result::object();
  double all = 0;
  for (const Reduction& reduction : reductions)
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64})
      for (const Layout& layout : layouts) {
        const auto name = fmt::format("{} {}, {}", reduction.name, name_of(dtype), layout.name);
        if (name.find(only) == std::string::npos) continue;
        if (!is_floating(dtype) && !reduction.takes_integers) continue;
        if (layout.dims.size() > 1 && !reduction.takes_several) continue;
        const Tensor x = layout.make(dtype);
        const auto body = [&] { reduction.run(x, layout.dims); };
        body();
        const double fastest = timed_runs(benchmark.steps(), body).front();
        microseconds[name] = 1e6 * fastest;
        all += fastest;
      }
  Result result = benchmark.result("every reduction once, fastest runs", {all});
  result["microseconds"] = microseconds;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  Benchmark benchmark("reductions", "Microseconds of reductions along every kind of dimension.",
                      50);
  benchmark.option("--only", only, "measure only reductions whose name has this part");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, only); });
}
