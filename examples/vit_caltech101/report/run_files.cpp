#include "examples/vit_caltech101/report/run_files.h"

#include "examples/vit_caltech101/report/console.h"
#include "examples/vit_caltech101/report/curves.h"

#include <booster/booster.h>

#include <fmt/format.h>

#include <utility>

namespace example {

using namespace booster;

namespace {
constexpr const char* metrics_name = "metrics.jsonl";
}

RunFiles::RunFiles(const std::filesystem::path& folder, int64_t metrics_bytes)
    : folder_(folder), metrics_(folder / metrics_name, metrics_bytes) {
  if (metrics_.broken_bytes() > 0)
    warn(fmt::format("{}: its last line was cut short; dropped {} bytes",
                     (folder / metrics_name).string(), metrics_.broken_bytes()));
}

void RunFiles::add(const nlohmann::json& line) {
  const bool added = attempt([&] { metrics_.add(line); }, !metrics_fail_);
  metrics_fail_ = !added;
}

void RunFiles::draw() const {
  attempt([&] {
    write_file(folder_ / "curves.svg", draw_curves(read_metrics(folder_ / metrics_name)));
  });
}

void RunFiles::write_record() const {
  // Names of files need not be UTF-8.
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_file(folder_ / "run.json", record.dump(2, ' ', false, replace) + "\n");
}

}  // namespace example
