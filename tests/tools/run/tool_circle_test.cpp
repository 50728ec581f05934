// Run tools started on each machine restart their ranks together, or end together.
#include "tests/parallel/ranks.h"
#include "tests/tools/run/run_tool.h"

#include "parallel/rendezvous/store/socket.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

constexpr const char* wait_for_both = "until [ $(cat runs-0 runs-1 | wc -l) = $((2 * now)) ]; "
                                      "do sleep 0.02; done; ";

// The tools of two machines with one rank each, which run `script` in the folder. In the script
// `now` is the number of the attempt, from 1, and runs-RANK has a line per attempt.
class TwoTools {
 public:
  TwoTools(const TemporaryFolder& folder, const std::string& script)
      : port_(std::to_string(Endpoint::from(place()).port)), first_(start(folder, script, 0)),
        second_(start(folder, script, 1)) {}
  Running& operator[](int node) { return node == 0 ? first_ : second_; }

 private:
  static std::string place() { return over_store().environment.at("BOOSTER_RENDEZVOUS"); }
  Running start(const TemporaryFolder& folder, const std::string& script, int node) const {
    const std::string words = "cd '" + folder.path().string() +
                              "'; echo x >> runs-$RANK; now=$(wc -l < runs-$RANK); " + script;
    return Running({"--nnodes", "2", "--node_rank", std::to_string(node), "--master_addr",
                    "127.0.0.1", "--master_port", port_, "--max_restarts", "2", "sh", "-c", words},
                   [] { setenv("BOOSTER_SECRET", "a secret for tests", 1); });
  }
  std::string port_;
  Running first_, second_;
};

}  // namespace

TEST_CASE("the ranks of all machines start again when those of one have failed") {
  const TemporaryFolder folder;
  TwoTools tools(folder, std::string("[ $now = 3 ] && exit 0; ") + wait_for_both +
                             "[ $RANK = 1 ] && exit 9; exec sleep 60");
  for (const int node : {0, 1}) {
    CHECK(tools[node].wait() == 0);
    CHECK(contains(tools[node].err(), "starting all ranks again (2 of 2 restarts)"));
    CHECK(folder.read("runs-" + std::to_string(node)) == "x\nx\nx\n");
  }
  CHECK(contains(tools[0].err(), "the ranks on node 1 have failed: stopping the ranks here"));
}

TEST_CASE("ranks that fail too often end the tools of all machines alike") {
  const TemporaryFolder folder;
  // Rank 0 succeeds every time, before rank 1 fails.
  TwoTools tools(folder, wait_for_both + std::string("[ $RANK = 0 ] || { sleep 0.2; exit 9; }"));
  for (const int node : {0, 1}) {
    const int code = tools[node].wait();
    CHECK_MESSAGE(code == 9, tools[node].err());
    CHECK(folder.read("runs-" + std::to_string(node)) == "x\nx\nx\n");
  }
}

TEST_CASE("a run tool that is killed ends the others and nothing starts again") {
  for (const int killed : {0, 1}) {
    CAPTURE(killed);
    const TemporaryFolder folder;
    TwoTools tools(folder, "exec sleep 60");
    for (const char* runs : {"runs-0", "runs-1"}) wait_for(folder / runs);
    kill(tools[killed].pid(), SIGKILL);
    const auto start = std::chrono::steady_clock::now();  // its rank sleeps for 60 s
    CHECK(tools[1 - killed].wait() == 1);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(45));
    CHECK(tools[killed].wait() == -SIGKILL);
    const std::string said = tools[1 - killed].err();
    CHECK(contains(said, "(the tool of node " + std::to_string(killed) + "; pid "));
    CHECK(!contains(said, "starting all ranks again"));
  }
}
