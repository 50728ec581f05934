#include "examples/vit_caltech101/instruments.h"

#include "examples/training/console.h"

#include <fmt/format.h>

namespace example {

using namespace booster;

namespace {

numerics::CheckerOptions checker_options(const Config& config, const World& world,
                                         const std::filesystem::path& output) {
  const std::string name =
      world.size == 1 ? "worker_cpu" : fmt::format("worker_cpu.{}", world.rank);
  return {.mode = numerics::check_mode(config.get<std::string>("train.diagnose_check")),
          .checked_ops = config.get<std::vector<std::string>>("train.diagnose_ops"),
          .skipped_ops = config.get<std::vector<std::string>>("train.diagnose_skip_ops"),
          .file = output / name};
}

}  // namespace

Instruments::Instruments(const Config& config, const World& world,
                         const std::filesystem::path& output, const BoostedModel& model,
                         int64_t steps_done, std::function<void(const std::string&)> say)
    : world_(world),
      output_(output),
      say_(std::move(say)),
      profiled_(parse_step_range(config.get<std::string>("train.profile"))) {
  if (const auto range = parse_step_range(config.get<std::string>("train.diagnose")))
    doctor_.emplace(model, DiagnoseOptions{.steps = *range,
                                           .steps_done = steps_done,
                                           .checker = checker_options(config, world, output)});
}

void Instruments::before_step(int64_t step) {
  if (profiled_ && step == profiled_->first) profiler_.emplace();
}

void Instruments::after_step(int64_t step) {
  if (profiler_ && step >= profiled_->last) finish_profile();
}

void Instruments::stop() {
  if (profiler_) profiler_->stop();
  if (doctor_) doctor_->stop();
}

void Instruments::finish() {
  if (profiler_) finish_profile();
  if (doctor_) finish_diagnosis(world_.group());
}

void Instruments::finish_alone() {
  if (doctor_) finish_diagnosis(Group());
}

void Instruments::finish_profile() {
  profiler_->stop();
  const std::filesystem::path trace = output_ / "trace.json";
  const bool written = attempt([&] { profiler_->write_trace(trace, world_.group()); });
  const std::string memory = memory_report();  // before the table measures its bounds
  if (world_.rank == 0)
    say_(profiler_->table() + memory +
         (written ? "trace of all ranks: " + trace.string() : "no trace could be written"));
  profiler_.reset();
}

void Instruments::finish_diagnosis(const Group& group) {
  doctor_->stop(group);
  exit_code_ = doctor_->exit_code();
  const std::filesystem::path path = output_ / "numerics.json";
  if (world_.rank == 0) {
    const bool written = attempt([&] { doctor_->write(path); });
    say_(doctor_->table() + (written ? "as JSON: " + path.string() : "no JSON could be written"));
  }
  doctor_.reset();
}

}  // namespace example
