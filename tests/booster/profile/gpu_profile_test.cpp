// Profiler on a GPU, which runs kernels after they are launched.
#include "booster/profile/profiler.h"
#include "core/autograd/functions.h"
#include "kernels/device/memory.h"
#include "platform/trace.h"
#include "tests/booster/profile/profile_row.h"
#include "tests/booster/temporary_folder.h"
#include "tests/on_gpu.h"
#include "tools/report/trace_summary.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

using namespace booster;
using booster::test::find_row;

namespace {

// Finds a line of a table by its first words.
bool has_line(const std::string& table, const std::string& begin) {
  return table.find("\n" + begin) != table.npos;
}

}  // namespace

TEST_CASE("GPU: a profile tells what the GPU did, and beside it what the host launched" *
          on_gpu()) {
  const Tensor a = ones({96, 96}, {.device = gpu});
  exp(matmul(a, a));  // the first call takes longer
  kernels::device_synchronize(gpu);
  Profiler profiler;
  {
    const kernels::TraceScope pass("forward", kernels::SpanKind::phase);
    for (int i = 0; i < 4; ++i) exp(matmul(a, a));
  }
  ones({100});  // on the CPU
  profiler.stop();
  const auto rows = profiler.rows();
  const ProfileRow *product = find_row(rows, "matmul", "forward"),
                   *launches = find_row(rows, "launch kernels", "forward");
  REQUIRE(product);
  REQUIRE(launches);
  CHECK(rows[0].device == gpu);
  CHECK(product->device == gpu);
  CHECK_FALSE(product->on_main_thread);
  CHECK(product->calls == 4);
  CHECK(product->gflop == doctest::Approx(4 * 2e-9 * 96 * 96 * 96));
  CHECK(launches->on_main_thread);
  CHECK(launches->calls == 8);
  CHECK(launches->gflop == 0);
  CHECK(find_row(rows, "fill", "")->device == Device{});
  double on_gpu = 0, on_main = 0;
  for (const auto& row : rows) (row.on_main_thread ? on_main : on_gpu) += row.seconds;
  const auto busy = profiler.busy_seconds();
  REQUIRE(busy.size() == 1);
  CHECK(busy[0].second == doctest::Approx(on_gpu).epsilon(0.01));  // one stream: no overlap
  CHECK(on_gpu <= profiler.seconds());
  CHECK(on_main <= profiler.seconds());
  // The CPU emulator of CUDA is slow, and works only when a call waits for it.
  const char* module = std::getenv("BOOSTER_CUDA_MODULE");
  if (module && std::string(module).find("on_host") != std::string::npos)
    CHECK(on_gpu > 3 * launches->seconds);
  const std::string table = profiler.table();
  for (const char* begin : {"matmul ", "launch kernels ", "(cuda:0 is idle) ",
                            "(between launches) ", "bound in f32 on cuda:0: "})
    CHECK(has_line(table, begin));
  const TemporaryFolder folder;
  profiler.write_trace(folder / "trace.json");
  const auto trace = nlohmann::json::parse(folder.read("trace.json"));
  std::map<std::string, std::string> tracks;  // by thread number
  std::map<std::string, int> products;        // by track
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks[event["tid"].dump()] = event["args"]["name"];
    if (event["ph"] == "X" && event["name"] == "matmul")
      ++products[tracks[event["tid"].dump()] + " " + event["cat"].get<std::string>()];
  }
  CHECK(products == std::map<std::string, int>{{"cuda:0 gpu", 4}, {"main launch", 4}});
  const report::TraceSummary summary = report::summarize_trace(folder / "trace.json");
  const auto summarized = std::ranges::find(summary.kernels, "matmul", &report::TraceRow::name);
  REQUIRE(summarized != summary.kernels.end());
  CHECK(1e-3 * summarized->milliseconds == doctest::Approx(product->seconds).epsilon(0.01));
}
