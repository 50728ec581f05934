#include "examples/training/run_files.h"

#include "examples/training/console.h"

#include <booster/booster.h>

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace example {

using namespace booster;

namespace {
constexpr const char* metrics_name = "metrics.jsonl";
}

RunFiles::RunFiles(const std::filesystem::path& folder, At at, const std::filesystem::path& events)
    : folder_(folder), metrics_(folder / metrics_name, at.metrics_bytes) {
  if (!events.empty()) events_.emplace(events, at.step + 1);
  if (metrics_.broken_bytes() > 0)
    warn(fmt::format("{}: its last line was cut short; dropped {} bytes",
                     (folder / metrics_name).string(), metrics_.broken_bytes()));
}

void RunFiles::add(const nlohmann::json& line) {
  const bool added = attempt([&] { metrics_.add(line); }, !metrics_fail_);
  metrics_fail_ = !added;
  if (added && has_lost_metrics() && !std::exchange(loss_told_, true))
    warn(
        fmt::format("{}: was removed or replaced during the training; its lines so far are lost, "
                    "and it begins anew",
                    (folder_ / metrics_name).string()));
  if (!events_) return;
  const auto tell = [&] { events_->add(event_scalars(line), line.at("step").get<int64_t>()); };
  events_fail_ = !attempt(tell, !events_fail_);
}

int64_t RunFiles::metrics_bytes() {
  attempt([&] { metrics_.sync(); });
  return metrics_.bytes();
}

void RunFiles::draw() const {
  attempt([&] { write_file(folder_ / "curves.svg", report::curves_file(folder_ / metrics_name)); });
}

std::vector<report::EventScalar> event_scalars(const nlohmann::json& line) {
  constexpr std::string_view validation = "val_";
  std::vector<report::EventScalar> scalars;
  for (const auto& [name, value] : line.items()) {
    if (name == "step" || name == "epoch" || !(value.is_number() || value.is_null())) continue;
    scalars.push_back(
        {name.starts_with(validation) ? "validation/" + name.substr(validation.size())
                                      : "train/" + name,
         value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
  return scalars;
}

std::filesystem::path events_folder(const Config& config) {
  const auto& wanted = config.to_json().at("train").at("tensorboard");
  if (wanted.is_string()) return wanted.get<std::string>();
  if (!wanted.is_boolean() || !wanted.get<bool>()) return {};
  return std::filesystem::path(config.get<std::string>("train.output_dir")) / "tensorboard";
}

void RunFiles::write_record() const {
  write_file(folder_ / "run.json", written_out(record).dump(2) + "\n");
}

}  // namespace example
