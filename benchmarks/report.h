// Shared by all benchmarks: the command line, and the fields and printing of results.
//
//   Benchmark benchmark("relu_speed", "Speed of relu.", 20);
//   int64_t size = 1 << 20;
//   benchmark.option("--size", size, "elements");
//   return benchmark.run(argc, argv, [&] {
//     return benchmark.result("relu", timed_runs(benchmark.steps(), [&] { ... }));
//   });
//
// Rates (images, FLOPs and bytes per second) refer to the median step.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace booster::benchmarks {

using Result = nlohmann::ordered_json;

class Benchmark {
 public:
  // `steps` is the default of --steps, the number of timed repetitions. Every benchmark also has
  // --threads and --json.
  Benchmark(const std::string& name, const std::string& description, int steps);
  ~Benchmark();

  void option(const std::string& name, std::string& value, const std::string& meaning);
  void option(const std::string& name, int64_t& value, const std::string& meaning);
  void flag(const std::string& name, bool& value, const std::string& meaning);

  // Parses the options, sets the threads, measures, and prints: one object with --json, else with
  // `print` (by default one line per field). With several ranks only the first prints. Returns
  // main's exit code.
  int run(int argc, char** argv, const std::function<Result()>& measure,
          const std::function<void(const Result&)>& print = {});

  // Returns the common fields, from the seconds of all steps in ascending order.
  Result result(const std::string& work, const std::vector<double>& seconds) const;

  int steps() const { return static_cast<int>(steps_); }
  int threads() const { return static_cast<int>(threads_); }

 private:
  std::string name_;
  std::unique_ptr<CLI::App> app_;
  int64_t threads_, steps_;
  bool json_ = false;
};

// Adds gflop and gflops, and if there is a bound (not 0), bound_gflops and of_bound.
void add_flops(Result& result, double gflop, double bound_gflops);
// Adds gbytes, gbytes_per_s and copy_gbytes_per_s.
void add_bytes(Result& result, double gbytes, double copy_gbytes_per_s);

}  // namespace booster::benchmarks
