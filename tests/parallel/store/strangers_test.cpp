// Strangers at a port do not stop a job's work.
#include "parallel/mesh.h"
#include "parallel/rendezvous/store/store.h"
#include "platform/error.h"
#include "tests/parallel/ranks.h"
#include "tests/parallel/store/meeting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

using namespace booster;
using std::chrono::milliseconds;

namespace {

// A random action of a stranger at a port.
struct Stranger {
  Stranger(const Endpoint& endpoint, std::mt19937& random) {
    const auto below = [&](int n) { return std::uniform_int_distribution<>(0, n - 1)(random); };
    std::string problem, bytes;
    socket = Socket::connected(endpoint, std::chrono::seconds(5), problem);
    if (!socket.defined()) return;
    switch (below(6)) {
      case 0: break;  // silent
      case 1:         // random bytes
        for (int i = 0; i < 200; ++i) bytes += static_cast<char>(below(256));
        break;
      case 2: bytes = encoded({FrameKind::put, {"key", "stolen"}}); break;
      case 3: bytes = std::string("\xff\xff\xff\x7f", 4) + "much"; break;
      case 4:
        bytes = encoded({FrameKind::hello, {"nonce", "proof", "1", "4", "job", "pid 1 on x"}});
        break;
      case 5: bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"; break;
    }
    socket.write_all(bytes, milliseconds(100));
    if (below(2)) socket = {};  // closes at once
  }
  Socket socket;
};

}  // namespace

TEST_CASE("1000 strangers at the port neither get in nor keep a job from its work") {
  const Variable secret("BOOSTER_SECRET", "sixteen letters!");
  const Endpoint endpoint = free_endpoint();
  auto ranks = meet_all(endpoint, 3);
  constexpr int wanted = 300;
  std::atomic<int> values = 0, came = 0;
  std::thread strangers([&] {
    std::mt19937 random(11);
    std::vector<Stranger> present;
    for (; came < 1000 || values < wanted; ++came) {
      present.emplace_back(endpoint, random);
      if (present.size() > 400) present.erase(present.begin());
    }
  });
  for (; came < 1000 || values < wanted; ++values) {
    const std::string key = fmt::format("key-{}", values.load());
    ranks[static_cast<size_t>(values % 3)]->put(key, key);
    CHECK(ranks[static_cast<size_t>((values + 1) % 3)]->get(key, {0, 1, 2}) == key);
    CHECK(ranks[2]->trouble({0, 1, 2}) == "");
  }
  strangers.join();
}

TEST_CASE("rank: reduces while strangers come" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> data(5000), stop(1);
  for (int call = 0; stop[0] == 0; ++call) {
    std::fill(data.begin(), data.end(), static_cast<float>(group.rank() + call % 10));
    group.all_reduce(data);
    if (data[4999] != static_cast<float>(3 + 3 * (call % 10))) FAIL("a wrong sum");
    stop[0] = group.rank() == 0 && std::filesystem::exists(test_folder() + "/stop");
    group.broadcast(stop, 0);
    if (call == 0) touch("ready-" + std::to_string(group.rank()));
  }
  // The store still serves its members.
  CHECK(group.subgroup({0, 1, 2}).size() == 3);
}
TEST_CASE("1000 strangers at the store disturb no collective that runs meanwhile") {
  const auto environment = over_store().environment;
  Ranks ranks("rank: reduces while strangers come", 3, environment);
  for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
  std::mt19937 random(12);
  std::vector<Stranger> present;
  for (int came = 0; came < 1000; ++came) {
    present.emplace_back(Endpoint::from(environment.at("BOOSTER_RENDEZVOUS")), random);
    if (present.size() > 400) present.erase(present.begin());
  }
  std::ofstream(ranks.folder() + "/stop").put('x');
  CHECK(failures(ranks.wait(30)) == "");
}
