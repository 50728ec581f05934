#include "benchmarks/report.h"

#include "booster/profile/machine.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"
#include "parallel/mesh.h"
#include "platform/program.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "platform/warn.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace booster::benchmarks {

namespace {

std::string text_of(const Result& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

void print_fields(const Result& result) {
  for (const auto& [name, value] : result.items()) fmt::print("{:<20} {}\n", name, text_of(value));
}

}  // namespace

Benchmark::Benchmark(const std::string& name, const std::string& description, int steps)
    : name_(name),
      app_(std::make_unique<CLI::App>(description, name)),
      threads_(kernels::thread_count()),
      steps_(steps) {
  option("--threads", threads_, "threads of the kernels");
  option("--steps", steps_, "timed repetitions");
  flag("--json", json_, "print one JSON object instead of a table");
}

Benchmark::~Benchmark() = default;

void Benchmark::option(const std::string& name, std::string& value, const std::string& meaning) {
  app_->add_option(name, value, meaning)->capture_default_str();
}
void Benchmark::option(const std::string& name, int64_t& value, const std::string& meaning) {
  app_->add_option(name, value, meaning)->capture_default_str();
}
void Benchmark::flag(const std::string& name, bool& value, const std::string& meaning) {
  app_->add_flag(name, value, meaning);
}

int Benchmark::run(int argc, char** argv, const std::function<Result()>& measure,
                   const std::function<void(const Result&)>& print) {
  try {
    if (!parse_command_line(*app_, argc, argv)) return 0;
    check(steps_ >= 1 && steps_ <= 1000000, "--steps: out of range; got {}, want 1 to 1000000",
          steps_);
    check(threads_ >= 1 && threads_ <= 4096, "--threads: out of range; got {}, want 1 to 4096",
          threads_);
    kernels::set_thread_count(threads());
    const Result result = measure();
    if (launch_from_env().rank > 0) return 0;
    if (json_) fmt::print("{}\n", result.dump());
    else print ? print(result) : print_fields(result);
    return 0;
  } catch (const Error& error) {
    const std::string text = error.what(), prefix = name_ + ": ";
    warn(fmt::format("{}{}", text.starts_with(prefix) ? "" : prefix, text));
    return error.exit_code();
  }
}

Result Benchmark::result(const std::string& work, const std::vector<double>& seconds) const {
  return {{"benchmark", name_},
          {"work", work},
          {"seconds", seconds[seconds.size() / 2]},
          {"seconds_min", seconds.front()},
          {"steps", steps()},
          {"threads", threads()},
          {"variant", kernels::cpu_variant()},
          {"machine", processor_name()},
          {"versions", library_versions()}};
}

void add_flops(Result& result, double gflop, double bound_gflops) {
  const double gflops = gflop / result["seconds"].get<double>();
  result["gflop"] = gflop;
  result["gflops"] = gflops;
  if (bound_gflops == 0) return;
  result["bound_gflops"] = bound_gflops;
  result["of_bound"] = gflops / bound_gflops;
}

void add_bytes(Result& result, double gbytes, double copy_gbytes_per_s) {
  result["gbytes"] = gbytes;
  result["gbytes_per_s"] = gbytes / result["seconds"].get<double>();
  result["copy_gbytes_per_s"] = copy_gbytes_per_s;
}

}  // namespace booster::benchmarks
