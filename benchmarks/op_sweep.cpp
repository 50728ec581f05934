// Times every public function on tensors of several memory orders and dtypes. Each row is a JSON
// line: the function's name, order, shape, dtype and seconds. peers/op_sweep.py prints the same
// rows of PyTorch, and peers/op_sweep_table.py joins both.
#include "benchmarks/op_sweep_functions.h"
#include "benchmarks/report.h"
#include "benchmarks/timing.h"

#include <fmt/format.h>

#include <ctime>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string only;
  int64_t microseconds = 1000;
  bool quick = false;
};

struct MemoryOrder {
  const char* name;
  Shape memory;  // of the contiguous tensor
  std::function<Tensor(const Tensor&)> view;
  int64_t dim;
};

Tensor itself(const Tensor& x) { return x; }

// The same as ORDERS in peers/op_sweep.py. The last two are "first" and "short" for functions along
// a dimension, and "broadcast" for others.
const MemoryOrder memory_orders[] = {
    {"contiguous", {512, 1024}, itself, 1},
    {"transposed", {1024, 512}, [](const Tensor& x) { return transpose(x, 0, 1); }, 1},
    {"middle", {8, 64, 16, 64}, [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); }, 2},
    {"row", {1, 1024}, itself, 1},
    {"slice", {512, 2048}, [](const Tensor& x) { return narrow(x, 1, 512, 1024); }, 1},
    {"broadcast", {1, 1024}, [](const Tensor& x) { return expand(x, {512, 1024}); }, 1},
    {"first", {512, 1024}, itself, 0},
    {"short", {8192, 64}, itself, 1},
};

bool suits(const MemoryOrder& order, SweepKind kind) {
  const std::string name = order.name;
  if (name == "broadcast") return kind == SweepKind::elementwise || kind == SweepKind::pair;
  if (name == "first" || name == "short") return kind == SweepKind::along;
  return true;
}

SweepInput input_of(const MemoryOrder& order, SweepKind kind, DType dtype) {
  const bool is_pair = kind == SweepKind::pair && std::string(order.name) == "broadcast";
  const Shape memory = is_pair ? Shape{512, 1024} : order.memory;
  const auto view = is_pair ? itself : order.view;
  const auto made = [&](const Tensor& x) { return view(cast(x, dtype)); };
  SweepInput in;
  manual_seed(1);
  in.x = made(is_floating(dtype) ? normal(memory) : normal(memory, 0, 100));
  in.positive = made(is_floating(dtype) ? uniform(memory, 0.1, 2) : uniform(memory, 1, 100));
  in.y = is_pair ? cast(uniform({1024}, 1, 2), dtype) : made(uniform(memory, 1, 2));
  in.mask = view(greater(normal(memory), 0));
  in.index = view(randint(0, in.x.size(order.dim), memory));
  const int64_t last = in.x.size(-1);
  in.matrix = cast(normal({last, 128}), dtype);
  in.vector = cast(normal({last}), dtype);
  in.weight = normal({last});
  in.dim = order.dim;
  return in;
}

SweepInput images(bool is_channels_last) {
  SweepInput in;
  manual_seed(1);
  in.x = normal({8, 32, 28, 28});
  if (is_channels_last) in.x = channels_last(in.x);
  in.matrix = normal({32, 32, 3, 3});
  in.vector = normal({32});
  return in;
}

timespec clock_time(bool of_cores) {
  timespec now = {};
  clock_gettime(of_cores ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return now;
}
double seconds_since(const timespec& start, bool of_cores) {
  const timespec now = clock_time(of_cores);
  return static_cast<double>(now.tv_sec - start.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec - start.tv_nsec);
}

// Times one function: the fastest of several samples of equally many calls. With one thread these
// are CPU seconds; with more, elapsed seconds.
class Stopwatch {
 public:
  Stopwatch(int samples, double sample_seconds, bool of_cores)
      : samples_(samples), sample_seconds_(sample_seconds), of_cores_(of_cores) {}
  double seconds_of(const std::function<void()>& body) const {
    body();
    const double once = timed(body, 1);
    const int calls = std::max(1, static_cast<int>(sample_seconds_ / once));
    double fastest = once;
    for (int i = 0; i < samples_; ++i) fastest = std::min(fastest, timed(body, calls));
    return fastest;
  }

 private:
  double timed(const std::function<void()>& body, int calls) const {
    const timespec start = clock_time(of_cores_);
    for (int i = 0; i < calls; ++i) body();
    return seconds_since(start, of_cores_) / calls;
  }

  int samples_;
  double sample_seconds_;
  bool of_cores_;
};

class Sweep {
 public:
  Sweep(const Benchmark& benchmark, const Settings& settings)
      : settings_(settings),
        threads_(benchmark.threads()),
        watch_(settings.quick ? 3 : benchmark.steps(),
               1e-6 * static_cast<double>(settings.quick ? 300 : settings.microseconds),
               benchmark.threads() == 1) {}

  void run() {
    for (const MemoryOrder& order : memory_orders)
      for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) run_order(order, dtype);
    for (const bool is_channels_last : {false, true}) {
      const char* order = is_channels_last ? "channels_last" : "contiguous";
      for (const SweepFunction& function : sweep_image_functions())
        time(function, order, DType::f32, images(is_channels_last));
    }
  }
  int64_t rows() const { return rows_; }

 private:
  // Dtypes other than f32 are timed in two orders.
  void run_order(const MemoryOrder& order, DType dtype) {
    const std::string name = order.name;
    if (dtype != DType::f32 && name != "contiguous" && name != "transposed") return;
    for (const SweepFunction& function : sweep_functions()) {
      if (!suits(order, function.kind)) continue;
      if (!is_floating(dtype) && !function.takes_integers) continue;
      if (is_wanted(function.name, name, dtype))
        time(function, name, dtype, input_of(order, function.kind, dtype));
    }
  }
  bool is_wanted(const std::string& function, const std::string& order, DType dtype) const {
    const auto id = fmt::format(" {} {} {} ", function, order, name_of(dtype));
    return id.find(settings_.only) != std::string::npos;
  }
  void time(const SweepFunction& function, const std::string& order, DType dtype,
            const SweepInput& in) {
    if (!is_wanted(function.name, order, dtype)) return;
    const double seconds = watch_.seconds_of([&] { function.run(in); });
    const Result row = {{"benchmark", "op_sweep"},
                        {"name", function.name},
                        {"order", order},
                        {"dtype", name_of(dtype)},
                        {"shape", std::vector<int64_t>(in.x.shape().begin(), in.x.shape().end())},
                        {"threads", threads_},
                        {"seconds", seconds}};
    fmt::print("{}\n", row.dump());
    ++rows_;
  }

  const Settings& settings_;
  int threads_;
  Stopwatch watch_;
  int64_t rows_ = 0;
};

Result measure(const Benchmark& benchmark, const Settings& settings) {
  const NoGradGuard no_grad;
  Sweep sweep(benchmark, settings);
  const timespec start = clock_time(false);
  sweep.run();
  Result result = benchmark.result("the sweep itself", {seconds_since(start, false)});
  result["rows"] = sweep.rows();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("op_sweep", "Seconds of every public function, a JSON line for each row.",
                      10);
  benchmark.option("--only", settings.only,
                   "only rows with this part of ' NAME ORDER DTYPE ', spaces included");
  benchmark.option("--microseconds", settings.microseconds, "of a sample of calls");
  benchmark.flag("--quick", settings.quick, "3 samples of 300 microseconds");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
