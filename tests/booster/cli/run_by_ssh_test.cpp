// `booster run` with machines that it reaches by ssh. What stands for ssh runs the command on this
// machine, and keeps its own arguments.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

using namespace booster;

TEST_CASE("machines that are reached by ssh share a secret that no command line shows") {
  const TemporaryFolder folder;
  folder.write("ssh", "#!/bin/sh\necho \"$*\" >> '" + (folder / "arguments").string() +
                          "'\nfor last; do :; done\nexec sh -c \"$last\"\n");
  std::filesystem::permissions(folder / "ssh", std::filesystem::perms::owner_all);
  folder.write("rank", "#!/bin/sh\necho $RANK of $WORLD_SIZE at $MASTER_ADDR: $BOOSTER_SECRET.\n");
  std::filesystem::permissions(folder / "rank", std::filesystem::perms::owner_all);
  const auto run = [&](const std::string& environment) {
    return run_command(fmt::format("{} PATH='{}':\"$PATH\" '{}/booster/booster' run --host a,b "
                                   "--nproc_per_node 2 '{}'",
                                   environment, folder.path().string(), build_folder().string(),
                                   (folder / "rank").string()));
  };
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
