// A dump of the tensor checker, compared with itself.
#include "tests/fuzz/target.h"
#include "tools/doctor/dump_compare.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const auto lines = numerics::read_dump(file.path());
    const numerics::Comparison same = numerics::compare_dumps(lines, lines);
    fuzz::promise(same.unmatched == 0 && same.flagged == 0, "a dump is like itself");
    fuzz::promise(same.rows.size() == lines.size(), "every line is a row");
    fuzz::promise(fuzz::is_plain(same.text(true)), "the table is plain text");
    fuzz::promise(fuzz::is_plain(same.csv()), "the CSV is plain text");
    same.to_json().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    fuzz::accepts([&] { numerics::compare_dumps(lines, {}, 65536).text(false); });
  });
  return 0;
}
