// The store at which ranks on several machines meet: which ranks it admits, what it accepts from
// strangers, and how it detects that a rank is gone.
#include <doctest/doctest.h>

#include "parallel/groups/group.h"
#include "parallel/mesh.h"
#include "parallel/rendezvous/secret.h"
#include "parallel/rendezvous/store/socket.h"
#include "parallel/rendezvous/store/store.h"
#include "tests/parallel/ranks.h"
#include "tests/parallel/store/meeting.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace booster;
using doctest::Contains;

namespace {

using std::chrono::milliseconds;

std::string error_of_joining(const Endpoint& endpoint, int rank, int size,
                             const std::string& job = "job") {
  try {
    const StoreRendezvous joined(endpoint, rank, size, job);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("HMAC-SHA256 gives the codes of RFC 4231") {
  CHECK(hexadecimal(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hexadecimal(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(is_same("abc", "abc"));
  CHECK_FALSE(is_same("abc", "abd"));
  CHECK_FALSE(is_same("abc", "abcd"));
}

TEST_CASE("an endpoint is tcp://HOST:PORT") {
  CHECK(Endpoint::from("tcp://node-1.site:29500").text() == "tcp://node-1.site:29500");
  CHECK(Endpoint::from("tcp://[::1]:80").host == "::1");
  CHECK(Endpoint::from("tcp://[::1]:80").text() == "tcp://[::1]:80");
  for (const char* bad : {"tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65536",
                          "tcp://:80", "tcp://host:8x", "http://host:80", ""}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(Endpoint::from(bad), Contains("want tcp://HOST:PORT"), Error);
  }
}

TEST_CASE("frames come out as they went in, however the bytes are cut") {
  std::mt19937 random(3);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<Frame> sent;
    std::string bytes;
    for (size_t i = 0, count = 1 + below(5); i < count; ++i) {
      const std::string key(below(40), 'k'), value(below(3000), static_cast<char>(below(256)));
      sent.push_back(below(2) ? Frame{FrameKind::put, {key, value}} : Frame{FrameKind::alive, {}});
      bytes += encoded(sent.back());
    }
    FrameReader reader(longest_store_frame);
    std::vector<Frame> got;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min(1 + below(500), bytes.size() - at);
      reader.add(std::string_view(bytes).substr(at, n));
      at += n;
      while (auto frame = reader.next()) got.push_back(std::move(*frame));
    }
    REQUIRE(got.size() == sent.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].kind == sent[i].kind);
      CHECK(got[i].texts == sent[i].texts);
    }
  }
}

TEST_CASE("ranks meet, tell each other values, and learn of a failure") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  const Endpoint endpoint = free_endpoint();
  auto ranks = meet_all(endpoint, 5);
  std::vector<int> all = {0, 1, 2, 3, 4};
  for (auto& rank : ranks) rank->wait_for(all);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ranks[3]->put("key", std::string("va\0lue", 6));
  });
  CHECK(ranks[1]->get("key", all) == std::string("va\0lue", 6));
  CHECK(ranks[0]->get("key", {0, 3}) == std::string("va\0lue", 6));
  later.join();
  for (auto& rank : ranks) {
    CHECK(rank->secret() == ranks[0]->secret());
    CHECK(rank->secret().size() == 32);
    CHECK(rank->address() == "127.0.0.1");
    CHECK(rank->trouble(all) == "");
    CHECK(rank->describe(2) == fmt::format("rank 2 (pid {} on ", getpid()) +
                                   rank->describe(2).substr(rank->describe(2).find(" on ") + 4));
  }
  CHECK_THROWS_WITH_AS(ranks[2]->put("much", std::string(longest_store_frame, 'x')),
                       Contains("want less than 1048576"), Error);
  ranks[4]->report_failure("rank 4 gave up: no more flour");
  for (auto& rank : ranks) CHECK(soon([&] { return !rank->trouble({1}).empty(); }));
  ranks[2]->report_failure("rank 2 gave up, too");
  std::this_thread::sleep_for(milliseconds(100));
  for (auto& rank : ranks) {
    CHECK(rank->trouble({1}) == "rank 4 gave up: no more flour");
    CHECK_THROWS_WITH_AS(rank->get("never", all), Contains("no more flour"), Error);
  }
}

// The program's own handlers interrupt a wait, regardless of SA_RESTART.
TEST_CASE("a signal in the middle of a message does not cut it") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  struct sigaction handled = {}, before = {};
  handled.sa_handler = [](int) {};
  handled.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &handled, &before);
  std::thread writer([&] {
    const Socket socket(ends[0]);
    CHECK(socket.write_all(std::string(1 << 20, 'x'), std::chrono::seconds(20)));
  });
  for (int i = 0; i < 20; ++i) {
    pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::string bytes;
  {
    const Socket socket(ends[1]);
    while (bytes.size() < 1 << 20 && socket.read_into(bytes)) std::this_thread::yield();
  }
  CHECK(bytes.size() == 1 << 20);
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("who leaves is missed only by those that need it") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  auto ranks = meet_all(free_endpoint(), 3);
  for (auto& rank : ranks) rank->wait_for({0, 1, 2});
  ranks[1].reset();
  std::this_thread::sleep_for(milliseconds(500));  // known by now, or shortly after
  for (const int rank : {0, 2}) {
    CHECK(ranks[static_cast<size_t>(rank)]->trouble({0, 2}) == "");
    CHECK_NOTHROW(ranks[static_cast<size_t>(rank)]->wait_for({0, 2}));
  }
  CHECK(soon([&] { return !ranks[0]->trouble({0, 1}).empty(); }));
  CHECK(ranks[0]->trouble({0, 1}).find("has ended while other ranks still need it") !=
        std::string::npos);
}

TEST_CASE("who has no secret, another one, another job or a taken rank is refused") {
  const Endpoint endpoint = free_endpoint();
  unsetenv("BOOSTER_SECRET");
  CHECK(error_of_joining(endpoint, 1, 2).find("BOOSTER_SECRET: is not set") == 0);
  const Variable shorter("BOOSTER_SECRET", "short");
  CHECK(error_of_joining(endpoint, 0, 2) == "BOOSTER_SECRET: got 5 characters, want at least 16");
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  const StoreRendezvous first(endpoint, 0, 2, "job");
  const std::string who = endpoint.text() + " refuses rank ";
  // At once, because each tries for seconds.
  const auto joining = [&](int rank, int size, const char* job = "job") {
    return std::async(std::launch::async, error_of_joining, endpoint, rank, size, job);
  };
  auto cake = joining(1, 2, "cake"), wide = joining(1, 3), high = joining(5, 2),
       twice = joining(0, 2);
  CHECK(cake.get() == "rendezvous: " + who +
                          "1: another job meets there: rank 0 belongs to job; this is rank 1 of "
                          "cake; want a MASTER_PORT for each job, or one BOOSTER_JOB for all ranks "
                          "of a job");
  CHECK(wide.get().find("another job meets there") != std::string::npos);
  CHECK(high.get().find("no such rank; got 5, want 0 to 1") != std::string::npos);
  CHECK(twice.get().find("rank 0 cannot listen at tcp://127.0.0.1:") != std::string::npos);
  const StoreRendezvous second(endpoint, 1, 2, "job");
  CHECK(error_of_joining(endpoint, 1, 2).find("rank 1 of job is already taken by pid ") !=
        std::string::npos);
  const Variable other("BOOSTER_SECRET", "another secret, as long");
  CHECK(error_of_joining(endpoint, 1, 2) ==
        "rendezvous: " + who + "1: it has another BOOSTER_SECRET");
}

// The listener does not know the secret, or is no store at all.
TEST_CASE("a rank does not trust whoever listens") {
  const Endpoint endpoint = free_endpoint();
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  std::string problem;
  const Socket listener = Socket::listening(endpoint, problem);
  REQUIRE(listener.defined());
  std::atomic<bool> done = false;
  std::thread impostor([&] {
    std::vector<Socket> taken;
    while (!done) {
      std::this_thread::sleep_for(milliseconds(5));
      Socket socket = listener.accept();
      if (!socket.defined()) continue;
      const std::string nonce(32, 'n'), proof(32, 'p');
      socket.write_all(
          encoded({FrameKind::challenge, {nonce}}) + encoded({FrameKind::welcome, {proof, "run"}}),
          milliseconds(500));
      taken.push_back(std::move(socket));
    }
  });
  CHECK(error_of_joining(endpoint, 1, 2) == "rendezvous: the process that listens at " +
                                                endpoint.text() + " does not know BOOSTER_SECRET");
  done = true;
  impostor.join();
}

TEST_CASE("rank: reduces until somebody falls silent" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  std::vector<float> data(1 << 16, 1.0F);
  group.all_reduce(data);
  touch("ready-" + std::to_string(world.rank));
  std::string error;
  try {
    for (;;) group.all_reduce(data);
  } catch (const Error& caught) {
    error = caught.what();
  }
  touch("named-" + std::to_string(world.rank));
  CAPTURE(error);
  CHECK(error.find("rank 1 (pid ") != error.npos);
  CHECK(error.find("has shown no sign of life for 4 s (BOOSTER_HEARTBEAT) while other ranks still "
                   "need it") != error.npos);
}
TEST_CASE("a stopped rank is named within the heartbeat, whatever BOOSTER_TIMEOUT is") {
  const auto environment = over_store().with({{"BOOSTER_HEARTBEAT", "4"}});
  Ranks ranks("rank: reduces until somebody falls silent", 3, environment);
  for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
  kill(ranks.pid(1), SIGSTOP);
  for (const char* name : {"named-0", "named-2"}) ranks.wait_for_file(name);  // up to a minute
  kill(ranks.pid(1), SIGKILL);
  const auto results = ranks.wait();
  CHECK(failures({results[0], results[2]}) == "");
}
