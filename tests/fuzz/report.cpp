// A run's folder for `booster report`: the input is its metrics.jsonl, run.json, trace.json and
// worst_images.json, with zero bytes between them.
#include "booster/report/page/page.h"
#include "tests/fuzz/own_folder.h"

using namespace booster;

namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = fuzz::own_folder();
  std::string_view rest = fuzz::text_of(data, size);
  for (const char* name : {"metrics.jsonl", "run.json", "trace.json", "worst_images.json"})
    fuzz::put_file(folder / name, fuzz::take_part(rest));
  fuzz::accepts([&] {
    const report::RunFolder run = report::read_run(folder);
    const std::string curves = report::curves_file(run.metrics);
    fuzz::promise(count(curves, "<svg") == 1, "curves are one picture");
    const std::string page = report::report_page({run, run});
    fuzz::promise(count(page, "<script>") == 1 && count(page, "</script>") == 1,
                  "text of a run is no script");
    fuzz::promise(count(page, "<img") == count(page, "<img alt=\"\" src=\"data:image/jpeg;base64,"),
                  "a page loads nothing");
  });
  return 0;
}
