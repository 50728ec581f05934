// A silent rank counts as gone, unless the listener itself was suspended. A rank that left before
// it took part may return.
#include "parallel/rendezvous/secret.h"
#include "parallel/rendezvous/store/silence.h"
#include "platform/error.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"
#include "tests/parallel/store/meeting.h"
#include "tools/run/tool_circle.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <random>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

using namespace booster;
using doctest::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("of a silence, at most a second counts between two looks") {
  for (const unsigned round : testing::draws(200)) {
    std::mt19937 random(round);
    Silence::Clock::time_point now{};
    Silence silence(now);
    milliseconds length{0};
    for (int look = 0; look < 30; ++look) {
      const milliseconds gap(std::uniform_int_distribution<>(0, 3000)(random));
      if (random() % 5 == 0) {
        silence.end();
        length = {};
      }
      now += gap;
      length += std::min(gap, milliseconds(1000));
      CHECK(silence.length(now) == length);
    }
  }
}

TEST_CASE("rank: four meet in one process" * doctest::skip()) {
  auto ranks = meet_all(free_endpoint(), 4);
  std::vector<int> all(ranks.size());
  std::iota(all.begin(), all.end(), 0);
  for (auto& rank : ranks) rank->wait_for(all);
  touch("ready-0");
  while (!std::filesystem::exists(test_folder() + "/go-on"))
    std::this_thread::sleep_for(milliseconds(20));
  std::this_thread::sleep_for(seconds(4));
  for (auto& rank : ranks) CHECK(rank->trouble(all) == "");
  ranks[1]->put("key", "value");
  CHECK(ranks[3]->get("key", all) == "value");
}
TEST_CASE("a machine that was asleep for longer than the heartbeat has lost nobody") {
  const auto environment = over_store().with({{"BOOSTER_HEARTBEAT", "4"}});
  Ranks ranks("rank: four meet in one process", 1, environment);
  ranks.wait_for_file("ready-0");
  for (int freeze = 0; freeze < 2; ++freeze) {  // each may add a second, on a busy machine
    kill(ranks.pid(0), SIGSTOP);
    std::this_thread::sleep_for(seconds(5));
    kill(ranks.pid(0), SIGCONT);
    std::this_thread::sleep_for(milliseconds(freeze * 100));
  }
  std::ofstream(ranks.folder() + "/go-on").put('x');
  CHECK(failures(ranks.wait(30)) == "");
}

namespace {

// Returns the connecting end of this process's only connection to `port`, or -1.
int connection_to(int port) {
  for (int file = 3; file < 1024; ++file) {
    sockaddr_in other = {};
    socklen_t size = sizeof other;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&other), &size) == 0 &&
        other.sin_family == AF_INET && ntohs(other.sin_port) == port)
      return file;
  }
  return -1;
}

RunOptions tool_options(int node, int port) {
  RunOptions options;
  options.nnodes = 2;
  options.node_rank = node;
  options.master_addr = "127.0.0.1";
  options.master_port = port;
  return options;
}

}  // namespace

TEST_CASE("rank: a tool loses the connection to its own store" * doctest::skip()) {
  const int port = free_endpoint().port;
  auto first = std::async(std::launch::async,
                          [&] { return std::make_unique<ToolCircle>(tool_options(0, port)); });
  int own = -1;
  CHECK(soon([&] { return (own = connection_to(port + 1)) >= 0; }));
  ToolCircle second(tool_options(1, port));
  auto tool = first.get();
  CHECK(tool->trouble(0) == "");
  shutdown(own, SHUT_RDWR);
  auto agree_and_leave = [left = std::move(tool)]() mutable {
    const auto here = std::move(left);
    here->agree(0, {});
  };
  CHECK_THROWS_WITH_AS(agree_and_leave(), Contains("(the tool of node 0"), Error);
}
TEST_CASE("a tool that loses the connection to its own store does not wait for ever") {
  const auto environment = over_store().environment;
  CHECK(failures(
            Ranks("rank: a tool loses the connection to its own store", 1, environment).wait(20)) ==
        "");
}

namespace {

// Joins as rank 1 of 2, and leaves as soon as the store welcomes it.
void join_and_leave(const Endpoint& endpoint) {
  std::string problem, bytes;
  const Socket socket = Socket::connected(endpoint, seconds(5), problem);
  REQUIRE(socket.defined());
  FrameReader reader(longest_store_frame);
  const auto next = [&] {
    for (;; bytes.clear()) {
      if (auto frame = reader.next()) return *frame;
      pollfd waiting = {socket.file(), POLLIN, 0};
      poll(&waiting, 1, 5000);
      REQUIRE(socket.read_into(bytes));
      reader.add(bytes);
    }
  };
  const std::string theirs = next().texts[0], nonce(32, 'n');
  Frame hello{FrameKind::hello, {nonce, "", "1", "2", "job", "pid 1 on an impatient host"}};
  hello.texts[1] = proof_of(shared_secret(), purpose_of(hello), theirs + nonce);
  socket.write_all(encoded(hello), seconds(5));
  REQUIRE(next().kind == FrameKind::welcome);
}

}  // namespace

TEST_CASE("a rank that gave up joining may come again, and is missed until it does") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  const Endpoint endpoint = free_endpoint();
  StoreRendezvous first(endpoint, 0, 2, "job");
  for (int i = 0; i < 3; ++i) join_and_leave(endpoint);
  {
    const Variable limit("BOOSTER_TIMEOUT", "0.5");
    CHECK_THROWS_WITH_AS(first.wait_for({0, 1}), Contains("missing: rank 1"), Error);
  }
  StoreRendezvous second(endpoint, 1, 2, "job");
  first.wait_for({0, 1});
  second.wait_for({0, 1});
  CHECK(first.trouble({0, 1}) == "");
  second.put("key", "value");
  CHECK(first.get("key", {0, 1}) == "value");
}
