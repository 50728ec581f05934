// A run's folder for `booster report`: the input is its metrics.jsonl, run.json, trace.json and
// worst_images.json, separated by zero bytes.
#include "tests/fuzz/own_folder.h"
#include "tests/occurrences.h"
#include "tools/report/page/page.h"

using namespace booster;
using booster::testing::occurrences;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = fuzz::own_folder();
  std::string_view rest = fuzz::text_of(data, size);
  for (const char* name : {"metrics.jsonl", "run.json", "trace.json", "worst_images.json"})
    fuzz::put_file(folder / name, fuzz::take_part(rest));
  fuzz::accepts([&] {
    const report::RunFolder run = report::read_run(folder);
    const std::string curves = report::curves_file(run.metrics);
    fuzz::promise(occurrences(curves, "<svg") == 1, "curves are one picture");
    const std::string page = report::report_page({run, run});
    fuzz::promise(occurrences(page, "<script>") == 1 && occurrences(page, "</script>") == 1,
                  "text of a run is no script");
    const char* inside = "<img alt=\"\" src=\"data:image/jpeg;base64,";
    fuzz::promise(occurrences(page, "<img") == occurrences(page, inside),
                  "a page loads nothing");
  });
  return 0;
}
