// `booster run` with machines that it reaches by ssh. What stands for ssh runs the command on this
// machine, and keeps its own arguments.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

using namespace booster;

namespace {

// A program in the folder.
void write_program(const TemporaryFolder& folder, const std::string& name,
                   const std::string& text) {
  folder.write(name, "#!/bin/sh\n" + text);
  std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
}
void write_ssh(const TemporaryFolder& folder) {
  write_program(folder, "ssh",
                "echo \"$*\" >> '" + (folder / "arguments").string() +
                    "'\nfor last; do :; done\nexec sh -c \"$last\"\n");
}
// Runs the program `rank` of the folder on two machines with two ranks each.
CommandResult run_by_ssh(const TemporaryFolder& folder, const std::string& environment,
                         const std::string& options = "") {
  return run_command(fmt::format("{} PATH='{}':\"$PATH\" '{}/booster/booster' run --host a,b "
                                 "--nproc_per_node 2 {} '{}'",
                                 environment, folder.path().string(), build_folder().string(),
                                 options, (folder / "rank").string()));
}

}  // namespace

TEST_CASE("machines that are reached by ssh share a secret that no command line shows") {
  const TemporaryFolder folder;
  write_ssh(folder);
  write_program(folder, "rank", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR: $BOOSTER_SECRET.\n");
  const auto run = [&](const std::string& environment) { return run_by_ssh(folder, environment); };
  const CommandResult drawn = run("env -u BOOSTER_SECRET");
  const CommandResult given = run("BOOSTER_SECRET=0123456789abcdefghij");
  REQUIRE_MESSAGE(drawn.code == 0, drawn.output);
  const std::string start = "0 of 4 at a: ";
  const size_t at = drawn.output.find(start);
  REQUIRE(at != std::string::npos);
  const std::string secret = drawn.output.substr(at + start.size(), 64);
  CHECK(secret.find_first_not_of("0123456789abcdef") == std::string::npos);
  for (const char* rank : {"0", "1", "2", "3"}) {
    CHECK(drawn.says(std::string(rank) + " of 4 at a: " + secret + "."));
    CHECK(given.says(std::string(rank) + " of 4 at a: 0123456789abcdefghij."));
  }
  const std::string arguments = folder.read("arguments");
  CHECK(arguments.find("--secret_at_stdin") != std::string::npos);
  for (const std::string& shown : {secret, std::string("0123456789abcdefghij")})
    CHECK(arguments.find(shown) == std::string::npos);
  const CommandResult bad = run("BOOSTER_SECRET=short");
  CHECK(bad.code == 2);
  CHECK(bad.says("BOOSTER_SECRET: got 5 characters, want at least 16"));
}

TEST_CASE("when a rank fails on a machine that is reached by ssh the ranks of all start again") {
  const TemporaryFolder folder;
  write_ssh(folder);
  write_program(folder, "rank",
                "cd '" + folder.path().string() +
                    "'\necho x >> runs-$RANK\n"
                    "attempt=$(wc -l < runs-$RANK)\n"
                    "[ $attempt != 3 ] || exit 0\n"
                    "[ $RANK = 3 ] || exec sleep 60\n"
                    "until [ $(cat runs-? | wc -l) = $((4 * attempt)) ]; do sleep 0.05; done\n"
                    "exit 9\n");
  const CommandResult again = run_by_ssh(folder, "", "--max_restarts 2");
  CHECK_MESSAGE(again.code == 0, again.output);
  for (const char* rank : {"0", "1", "2", "3"})
    CHECK(folder.read(std::string("runs-") + rank) == "x\nx\nx\n");
}
