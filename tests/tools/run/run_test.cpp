// The launcher: what the program gets, what the user sees, and what remains.
#include <doctest/doctest.h>

#include "platform/error.h"
#include "tests/tools/run/run_tool.h"
#include "tools/run/hosts.h"
#include "tools/run/options.h"

#include <pty.h>

#include <filesystem>

using namespace booster;
namespace fs = std::filesystem;

namespace {

const Words hostile = {"",
                       " ",
                       "a b",
                       "'",
                       "\"",
                       "$(touch /tmp/booster-was-here)",
                       "`id`",
                       "line\nbreak",
                       "\t",
                       "*",
                       "~",
                       "naïve ünïcode 漢字",
                       "\\",
                       "--nproc_per_node",
                       "-x",
                       ";",
                       "&",
                       "|",
                       "\x01\xff\xfe"};

std::string joined_by_zeros(const Words& words) {
  std::string text;
  for (const auto& word : words) text += word + '\0';
  return text;
}

}  // namespace

TEST_CASE("the exit code is the program's") {
  CHECK(run({"true"}).code == 0);
  CHECK(run({"sh", "-c", "exit 7"}).code == 7);
  CHECK(run({"sh", "-c", "kill -9 $$"}).code == 137);
  CHECK(run({"--nproc_per_node", "3", "sh", "-c", "exit 0"}).code == 0);
}

TEST_CASE("the first failing rank is reported and the others are stopped") {
  const auto ended =
      run({"--nproc_per_node=3", "sh", "-c",
           "echo started; if [ $RANK = 1 ]; then echo its reason >&2; exit 5; fi; exec sleep 60"});
  CHECK(ended.code == 5);
  CHECK(ended.seconds < 30);
  CHECK(contains(ended.err, "booster run: rank 1 (pid "));
  CHECK(contains(ended.err, ", host "));
  CHECK(contains(ended.err, ") ended with exit code 5; its last lines:\n"));
  CHECK(contains(ended.err, "\n  its reason\n"));
  CHECK(contains(run({"sh", "-c", "kill -11 $$"}).err, "was killed by signal 11 (SIGSEGV)"));
}

TEST_CASE("only the last 20 lines are repeated") {
  const auto ended = run({"--nproc_per_node", "1", "sh", "-c",
                          "i=0; while [ $i -lt 50 ]; do echo line$i; i=$((i+1)); done; exit 1"});
  CHECK(contains(ended.err, "  line30\n"));
  CHECK(!contains(ended.err, "  line29\n"));
}

TEST_CASE("a rank that ignores SIGTERM is killed after 5 seconds") {
  const TemporaryFolder folder;
  const auto ended = run({"--nproc_per_node", "2", "sh", "-c",
                          "cd \"$0\"; if [ $RANK = 0 ]; then until [ -e up ]; do sleep 0.02; done; "
                          "exit 3; fi; trap '' TERM; echo > up; while :; do sleep 0.1; done",
                          folder.path()});
  CHECK(ended.code == 3);
  CHECK(ended.seconds > 4.5);
  CHECK(ended.seconds < 30);
}

TEST_CASE("arguments reach the program byte for byte") {
  Words args = {"sh", "-c", "printf '%s\\0' \"$@\"", "name"};
  args.insert(args.end(), hostile.begin(), hostile.end());
  CHECK(run(args).out == joined_by_zeros(hostile));
  args.insert(args.begin(), "--");
  CHECK(run(args).out == joined_by_zeros(hostile));
  CHECK(!fs::exists("/tmp/booster-was-here"));
}

TEST_CASE("a shell gives quoted words back byte for byte") {
  const std::string line = "printf '%s\\0' " + shell_line(hostile);
  CHECK(run({"sh", "-c", line}).out == joined_by_zeros(hostile));
  CHECK(!fs::exists("/tmp/booster-was-here"));
}

TEST_CASE("every rank learns who it is") {
  const auto ended =
      run({"--nproc_per_node", "2", "--master_port", "12345", "--env", "EXTRA=a b", "sh", "-c",
           "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $EXTRA; "
           "test $OMP_NUM_THREADS -ge 1; test -d \"$(dirname \"$BOOSTER_RENDEZVOUS\")\""});
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "[0] 0 0 2 2 127.0.0.1 12345 a b\n"));
  CHECK(contains(ended.out, "[1] 1 1 2 2 127.0.0.1 12345 a b\n"));
  setenv("BOOSTER_SECRET", "sixteen letters!", 1);
  CHECK(run({"--nnodes", "3", "--node_rank", "2", "--master_addr", "node0", "--nproc_per_node", "2",
             "sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT"})
            .out.find("[5] 5/6 1 node0 29500\n") != std::string::npos);
  unsetenv("BOOSTER_SECRET");
  const auto without = run({"--nnodes", "2", "--master_addr", "node0", "true"});
  CHECK(without.code == 2);
  CHECK(contains(without.err, "BOOSTER_SECRET: is not set"));
}

TEST_CASE("the output of one rank passes untouched, that of several line by line") {
  CHECK(run({"printf", "a\\r50%%\\rno end\\000\\377"}).out ==
        std::string("a\r50%\rno end\0\xff", 14));
  const auto ended =
      run({"--nproc_per_node", "2", "sh", "-c", "printf 'one\\ntwo'; printf error >&2"});
  for (const char* line : {"[0] one\n", "[0] two\n", "[1] one\n", "[1] two\n"})
    CHECK(contains(ended.out, line));
  CHECK(contains(ended.err, "[0] error\n"));
}

TEST_CASE("one rank writes to the terminal itself") {
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) _exit(run_tool({"sh", "-c", "test -t 1 && test -t 2 && ! test -t 0"}));
  int status = 0;
  waitpid(pid, &status, 0);
  close(terminal);
  CHECK(status == 0);
}

TEST_CASE("logs hold what each rank wrote") {
  const TemporaryFolder folder;
  const std::string logs = folder / "new/logs";
  CHECK(run({"--nproc_per_node", "2", "--log_dir", logs, "sh", "-c",
             "cd \"$0\"; echo out $RANK; until [ -s rank-$RANK.log ]; do sleep 0.02; done; echo "
             "err >&2",
             logs})
            .code == 0);
  CHECK(read_file(logs + "/rank-0.log") == "out 0\nerr\n");
  CHECK(read_file(logs + "/rank-1.log") == "out 1\nerr\n");
  CHECK(run({"--log_dir", "/proc/nowhere", "true"}).code == 1);
}

TEST_CASE("all ranks start again after a failure, as often as allowed") {
  const Words program = {"sh", "-c", "test $RANK = 0 || test $BOOSTER_RESTART_COUNT = 2 || exit 9"};
  Words args = {"--nproc_per_node", "2", "--max_restarts", "2"};
  args.insert(args.end(), program.begin(), program.end());
  const auto ended = run(args);
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "starting all ranks again (2 of 2 restarts)"));
  args[3] = "1";
  CHECK(run(args).code == 9);
}

TEST_CASE("signals reach the ranks, which end in their own way") {
  for (int number : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    Running running(
        {"--nproc_per_node", "2", "sh", "-c",
         "cd \"$0\"; trap 'exit 33' TERM INT; echo up > up$RANK; while :; do sleep 0.05; done",
         folder.path()});
    for (const char* name : {"up0", "up1"}) wait_for(folder / name);
    kill(running.pid(), number);
    CHECK(running.wait() == 33);
  }
  const TemporaryFolder folder;
  Running running({"sh", "-c", "echo up > \"$0/up\"; exec sleep 60", folder.path()});
  wait_for(folder / "up");
  kill(running.pid(), SIGTERM);
  CHECK(running.wait() == 128 + SIGTERM);
}

TEST_CASE("no process is left when the run tool is killed, or when the ranks leave children") {
  for (bool killed : {true, false}) {
    const TemporaryFolder folder;
    Running running(
        {"--nproc_per_node", "2", "sh", "-c",
         std::string("cd \"$0\"; sleep 300 & echo $! $$ > part$RANK; mv part$RANK pids$RANK; ") +
             (killed ? "wait" : "exit 0"),
         folder.path()});
    std::vector<pid_t> pids;
    for (const char* name : {"pids0", "pids1"}) {
      wait_for(folder / name);
      std::ifstream file(folder / name);
      for (pid_t pid; file >> pid;) pids.push_back(pid);
    }
    REQUIRE(pids.size() == 4);
    if (killed) kill(running.pid(), SIGKILL);
    CHECK(running.wait() == (killed ? -SIGKILL : 0));
    CHECK(all_gone(pids));
  }
}

TEST_CASE("usage errors end with code 2 and say what is wanted") {
  const auto check_usage = [](const Words& args, const std::string& want) {
    const auto ended = run(args);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, want));
    CHECK(ended.out.empty());
  };
  const TemporaryFolder folder;
  std::ofstream(folder / "data.txt") << "x";
  check_usage({}, "no program given");
  check_usage({"--nproc_per_node", "0", "true"},
              "--nproc_per_node: out of range; got '0', want a number from 1 to 4096");
  check_usage({"--nproc_per_node", "two", "true"}, "got 'two'");
  check_usage({"--nproc_per_nod", "2", "true"}, "did you mean --nproc_per_node?");
  check_usage({"--nproc_per_node"}, "booster run: --nproc_per_node needs a value");
  check_usage({"-n", "2", "true"}, "unknown option; got \"-n\"");
  check_usage({"--dry-run=yes", "true"}, "--dry-run takes no value");
  check_usage({"--log_dir=", "true"}, "--log_dir needs a value; got an empty one");
  check_usage({"/bin/nosuchprogram"}, "no such program; got '/bin/nosuchprogram'");
  check_usage({"/bin/slep"}, "did you mean /bin/sleep?");
  check_usage({"nosuchprogramanywhere"}, "no such program in PATH; got 'nosuchprogramanywhere'");
  check_usage({folder.path()}, "not a program; got the folder");
  check_usage({folder / "data.txt"}, "not executable; got");
  check_usage({"--nnodes", "2", "--node_rank", "2", "true"},
              "--node_rank: out of range; got 2, want less than --nnodes = 2");
  check_usage({"--first_rank", "3", "--world_size", "4", "--nproc_per_node", "2", "true"},
              "--first_rank: too large; got 3, want at most 2 for --nproc_per_node = 2 of "
              "--world_size = 4");
  check_usage({"--nnodes", "2", "true"}, "--master_addr: not set");
  check_usage({"--env", "1X=2", "true"},
              "--env: not a variable; got '1X=2', want NAME or NAME=VALUE");
  check_usage({"--env", "NOT_SET_ANYWHERE", "true"}, "NOT_SET_ANYWHERE is not set");
  CHECK(run({"--help"}).code == 0);
}

TEST_CASE("a file that the system cannot run is a usage error") {
  const TemporaryFolder folder;
  std::ofstream(folder / "broken") << "#!/no/such/interpreter\n";
  fs::permissions(folder / "broken", fs::perms::owner_all);
  const auto ended = run({folder / "broken"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "cannot start"));
}

TEST_CASE("host names that a shell or ssh could take for something else are refused") {
  for (const char* host :
       {"-oProxyCommand=id", "a;b", "$(id)", "a b", "", "a\nb", ".a", "é", "a/b", "user@host"}) {
    CAPTURE(host);
    RunOptions options;
    options.host = std::string("good,") + host;
    CHECK_THROWS_AS(hosts_of(options), Error);
  }
}

TEST_CASE("a hostfile is read, filtered and checked") {
  const TemporaryFolder folder;
  RunOptions options;
  options.hostfile = folder / "hosts";
  std::ofstream(options.hostfile)
      << "# machines\nnode0 slots=2\n\n  node1  # second\nnode-2.example.org port=2222\n";
  const auto names = [&] {
    Words names;
    for (const Host& host : hosts_of(options)) names.push_back(host.name);
    return names;
  };
  CHECK(names() == Words{"node0", "node1", "node-2.example.org"});
  CHECK(hosts_of(options)[0].slots == 2);
  CHECK(hosts_of(options)[2].port == 2222);
  options.include = "node1,node0";
  CHECK(names() == Words{"node0", "node1"});
  options.include = "";
  options.exclude = "node1";
  CHECK(names() == Words{"node0", "node-2.example.org"});
  options.exclude = "nod1";
  CHECK_THROWS_AS(hosts_of(options), Error);
  options.exclude = "";
  std::ofstream(options.hostfile) << "node0\nnode0\n";
  CHECK_THROWS_WITH_AS(hosts_of(options),
                       (options.hostfile + ":2: duplicate host; got node0 twice").c_str(), Error);
  for (const char* word : {"slots=0", "slots=x", "slots=", "slots=9999999999", "port=65536",
                           "port=-1", "port=22x", "max_slots=4", "slots"}) {
    CAPTURE(word);
    std::ofstream(options.hostfile) << "node0 " << word << "\n";
    CHECK_THROWS_WITH_AS(hosts_of(options),
                         (options.hostfile + ":1: unknown attribute; got '" + word +
                          "', want slots=N (1 to 4096) or port=N (1 to 65535)")
                             .c_str(),
                         Error);
  }
  std::ofstream(options.hostfile) << "node0 slots=2 port=22 slots=3\n";
  CHECK_THROWS_WITH_AS(hosts_of(options),
                       (options.hostfile + ":1: duplicate attribute; got slots= twice").c_str(),
                       Error);
}

TEST_CASE("a machine takes as many ranks as are asked for, but no more than its slots") {
  RunOptions options;
  CHECK(ranks_on({"a"}, options) == 1);
  CHECK(ranks_on({"a", 3}, options) == 3);
  options.nproc_per_node = 2;
  CHECK(ranks_on({"a"}, options) == 2);
  CHECK(ranks_on({"a", 3}, options) == 2);
  CHECK_THROWS_WITH_AS(ranks_on({"a", 1}, options),
                       "--nproc_per_node: more than the slots of a in the hostfile; got 2, want at "
                       "most 1",
                       Error);
}

TEST_CASE("a dry run prints the commands and starts nothing") {
  const auto local =
      run({"--dry-run", "--nproc_per_node", "2", "--master_port", "5", "sh", "-c", "echo 'it''s'"});
  CHECK(contains(local.out,
                 "[1] LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=5 "));
  CHECK(contains(local.out, " sh -c 'echo '\\''it'\\'''\\''s'\\'''\n"));
  const auto remote = run(
      {"--dry-run", "--host", "a,b", "--ssh-port", "2222", "--nproc_per_node", "4", "prog", "x y"});
  CHECK(contains(
      remote.out,
      "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=5 -p 2222 -- a 'cd "));
  CHECK(contains(remote.out,
                 "run --stop_at_eof --env_at_stdin --nproc_per_node 4 --nnodes 2 --node_rank 1 "
                 "--master_addr a --master_port 29500 -- prog "));
  CHECK(contains(remote.out, "'\\''x y'\\'''\n"));
}
TEST_CASE("a dry run shows the variables, but no secrets") {
  const Words variables = {"--env", "WANDB_API_KEY=hidden1",           "--env", "LANG=de_DE.UTF-8",
                           "--env", "BOOSTER_SECRET=hidden2hidden2hid"};
  for (const Words& where : {Words{"--nproc_per_node", "1"}, Words{"--host", "a,b"}}) {
    Words words = {"--dry-run"};
    words.insert(words.end(), where.begin(), where.end());
    words.insert(words.end(), variables.begin(), variables.end());
    words.push_back("true");
    const auto plan = run(words);
    CHECK(plan.code == 0);
    CHECK(contains(plan.out, "WANDB_API_KEY=***"));
    CHECK(contains(plan.out, "LANG=de_DE.UTF-8"));
    CHECK(!contains(plan.out, "hidden"));
  }
}
