// `booster run` on machines reached by ssh. A substitute for ssh runs the command on this machine
// and records its own arguments. As with ssh, a signal to it does not reach the command, which sees
// its input end.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>

using namespace booster;

namespace {

// Writes a program into the folder.
void write_program(const TemporaryFolder& folder, const std::string& name,
                   const std::string& text) {
  folder.write(name, "#!/bin/sh\n" + text);
  std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
}
void write_ssh(const TemporaryFolder& folder) {
  write_program(folder, "ssh",
                "echo \"$*\" >> '" + (folder / "arguments").string() +
                    "'\nfor last; do :; done\nmkfifo \"$0.$$\"\nexec 3<&0\ncat <&3 > \"$0.$$\" &\n"
                    "setsid --wait sh -c \"$last\" < \"$0.$$\"\n");
}
// Runs the folder's program `rank` on two machines with two ranks each.
CommandResult run_by_ssh(const TemporaryFolder& folder, const std::string& environment,
                         const std::string& options = "") {
  return run_command(fmt::format("{} PATH='{}':\"$PATH\" '{}/tools/booster' run --host a,b "
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
  CHECK(arguments.find("--env_at_stdin") != std::string::npos);
  for (const std::string& shown : {secret, std::string("0123456789abcdefghij")})
    CHECK(arguments.find(shown) == std::string::npos);
  const CommandResult bad = run("BOOSTER_SECRET=short");
  CHECK(bad.code == 2);
  CHECK(bad.says("BOOSTER_SECRET: got 5 characters, want at least 16"));
}

TEST_CASE("variables reach ranks on other machines byte for byte, and no command line shows them") {
  const TemporaryFolder folder;
  write_ssh(folder);
  write_program(folder, "rank",
                "printf '%s' \"$TOKEN\" > '" + (folder / "token").string() +
                    "'-$RANK\necho $OMP_NUM_THREADS threads, $BOOSTER_SECRET.\n");
  const std::string token = "a'b \"$(id)\" `id`\n;\\ \xff";
  ::setenv("TOKEN", token.c_str(), 1);
  const CommandResult ran = run_by_ssh(folder, "OMP_NUM_THREADS=3",
                                       "--env TOKEN --env BOOSTER_SECRET=0123456789abcdefghij");
  ::unsetenv("TOKEN");
  REQUIRE_MESSAGE(ran.code == 0, ran.output);
  for (const char* rank : {"0", "1", "2", "3"})
    CHECK(folder.read(std::string("token-") + rank) == token);
  CHECK(ran.says("3 threads, 0123456789abcdefghij."));
  const std::string arguments = folder.read("arguments");
  for (const char* shown : {"TOKEN", "OMP_NUM_THREADS", "$(id)", "0123456789abcdefghij"})
    CHECK(arguments.find(shown) == std::string::npos);
  CHECK(run_by_ssh(folder, "", "--env LONG=" + std::string(70'000, 'x')).code == 2);
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

TEST_CASE("ranks start again once all of the attempt before have ended, and know which it is") {
  const TemporaryFolder folder;
  write_ssh(folder);
  // Each rank takes two seconds to stop. No new rank may start before all have stopped.
  write_program(folder, "rank",
                "cd '" + folder.path().string() +
                    "'\ntrap 'sleep 2; echo x >> ended-$RANK; exit 1' TERM\n"
                    "cat ended-? 2>/dev/null | wc -l >> seen-$RANK\n"
                    "echo $BOOSTER_RESTART_COUNT >> counts-$RANK\n"
                    "attempt=$(wc -l < counts-$RANK)\n"
                    "[ $attempt != 3 ] || exit 0\n"
                    "until [ $(cat counts-? | wc -l) = $((4 * attempt)) ]; do sleep 0.05; done\n"
                    "[ $RANK != 3 ] || { echo x >> ended-3; exit 9; }\n"
                    "while :; do sleep 0.05; done\n");
  const CommandResult again = run_by_ssh(folder, "", "--max_restarts 2");
  CHECK_MESSAGE(again.code == 0, again.output);
  for (const char* rank : {"0", "1", "2", "3"}) {
    CHECK(folder.read(std::string("seen-") + rank) == "0\n4\n8\n");
    CHECK(folder.read(std::string("counts-") + rank) == "0\n1\n2\n");
  }
}

TEST_CASE("machines of a hostfile take as many ranks as they have slots, at their ports") {
  const TemporaryFolder folder;
  write_ssh(folder);
  folder.write("hosts", "a slots=3\nb\nc port=2222 slots=2\n");
  write_program(folder, "rank",
                "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE here.\n");
  const CommandResult all = run_command(
      fmt::format("PATH='{0}':\"$PATH\" '{1}/tools/booster' run --ssh-port 23 --hostfile "
                  "'{0}/hosts' '{0}/rank'",
                  folder.path().string(), build_folder().string()));
  REQUIRE_MESSAGE(all.code == 0, all.output);
  for (const char* line : {"rank 0 of 6, 0 of 3 here.", "rank 1 of 6, 1 of 3 here.",
                           "rank 2 of 6, 2 of 3 here.", "rank 3 of 6, 0 of 1 here.",
                           "rank 4 of 6, 0 of 2 here.", "rank 5 of 6, 1 of 2 here."})
    CHECK(all.says(line));
  const std::string arguments = folder.read("arguments");
  CHECK(arguments.find(" -p 23 -- a ") != std::string::npos);
  CHECK(arguments.find(" -p 23 -- b ") != std::string::npos);
  CHECK(arguments.find(" -p 2222 -- c ") != std::string::npos);
}
