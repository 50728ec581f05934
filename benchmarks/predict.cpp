// Predictions a second of a ViT-Ti when one thread, or several, call one Predictor.
// Each call computes on its own thread alone.
//   build/benchmarks/predict --callers 4
#include "benchmarks/report.h"
#include "booster/booster.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  int64_t callers = 2, batch = 1, calls = 100;
  std::string precision = "fp32";
};

// Returns the seconds that `callers` threads take for `calls` passes each.
double seconds_of(const Predictor& predict, const Tensor& images, int64_t callers, int64_t calls) {
  using Clock = std::chrono::steady_clock;
  std::barrier<> begin(callers + 1), end(callers + 1);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < callers; ++i)
    threads.emplace_back([&] {
      predict(images);  // makes the thread's primitives
      begin.arrive_and_wait();
      for (int64_t call = 0; call < calls; ++call) predict(images);
      end.arrive_and_wait();
    });
  begin.arrive_and_wait();
  const auto start = Clock::now();
  end.arrive_and_wait();
  const std::chrono::duration<double> seconds = Clock::now() - start;
  for (std::thread& thread : threads) thread.join();
  return seconds.count();
}

Result measure(const Benchmark& benchmark, const Settings& settings) {
  manual_seed(1);
  const Predictor predict(models::vit("vit_tiny_patch16_224"),
                          {.mixed_precision = settings.precision, .threads = 1});
  const Tensor images = uniform({settings.batch, 3, 224, 224}, -1, 1);
  std::vector<double> alone, together;
  for (int i = 0; i < benchmark.steps(); ++i) {
    alone.push_back(seconds_of(predict, images, 1, settings.calls));
    together.push_back(seconds_of(predict, images, settings.callers, settings.calls));
  }
  std::ranges::sort(alone);
  std::ranges::sort(together);
  Result result = benchmark.result(
      fmt::format("vit_tiny_patch16_224, batch {}, {}; a step is {} calls of each thread",
                  settings.batch, settings.precision, settings.calls),
      together);
  const auto requests = static_cast<double>(settings.calls);
  const double of_one = requests / alone[alone.size() / 2];
  const double of_all =
      requests * static_cast<double>(settings.callers) / together[together.size() / 2];
  result["requests_per_s_1_thread"] = of_one;
  result[fmt::format("requests_per_s_{}_threads", settings.callers)] = of_all;
  result["speed_up"] = of_all / of_one;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("predict", "Predictions a second of several threads.", 5);
  benchmark.option("--callers", settings.callers, "threads that call the predictor");
  benchmark.option("--batch", settings.batch, "images of a call");
  benchmark.option("--calls", settings.calls, "calls of each thread in a step");
  benchmark.option("--precision", settings.precision, "a strategy");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
