// The example that trains on lines of text: from files with a resume, and from a pipe.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace booster;

namespace {

CommandResult streamed_text(const std::string& before, const std::filesystem::path& run,
                            const std::string& arguments) {
  return run_command(fmt::format("{} OMP_NUM_THREADS=1 '{}' '{}' {}", before,
                                 (build_folder() / "examples/streamed_text").string(), run.string(),
                                 arguments));
}

}  // namespace

TEST_CASE("streamed_text learns lines of files and of a pipe, and resumes") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1700; ++i) text += "the quick brown fox\njumps\n";
  folder.write("text", text);
  const std::string file = (folder / "text").string();
  const CommandResult whole = streamed_text("", folder / "run", file);
  REQUIRE_MESSAGE(whole.code == 0, whole.output);
  CHECK(whole.says("step 200 loss "));
  CHECK(whole.says("213 steps"));
  CHECK(streamed_text("", folder / "run", file).says("213 steps"));  // from step 200
  CHECK(streamed_text("cat " + file + " |", folder / "piped", "/dev/stdin").says("213 steps"));
  CHECK(streamed_text("", folder / "run", "no-such-file").says("no such file"));
}
