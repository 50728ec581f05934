// A config of the example followed by overrides, each after a zero byte. The effective values of an
// accepted config are themselves a config with these values.
#include "booster/config/config.h"
#include "examples/vit_caltech101/program_config.h"
#include "tests/fuzz/target.h"

#include <vector>

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  if (rest.find("libraries") != rest.npos)
    return 0;  // a parser would load libraries, which are
               // trusted
  const std::string_view text = fuzz::take_part(rest);
  std::vector<std::string> overrides;
  while (!rest.empty()) overrides.emplace_back(fuzz::take_part(rest));
  static const ProgramConfig program = example::program_config();
  fuzz::accepts([&] {
    const Config config = Config::from_text(text, "text", overrides, program);
    const Config again = Config::from_text(config.to_json().dump(), "again", {}, program);
    fuzz::promise(again.to_json() == config.to_json(), "effective values are a config");
  });
  return 0;
}
