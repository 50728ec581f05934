// Disturbances while a group's ranks connect with Gloo: a rank leaves, or a stranger connects
// first.
#include <doctest/doctest.h>

#include "parallel/backends/host_backend.h"
#include "parallel/backends/broken_pipe.h"
#include "parallel/rendezvous/store/socket.h"
#include "tests/parallel/memory_rendezvous.h"
#include "tests/parallel/ranks.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace booster;
using doctest::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Clock = std::chrono::steady_clock;

// Calls `before_put` with what a rank is about to publish.
class Watched final : public MemoryRendezvous {
 public:
  using BeforePut = std::function<void(const std::string& key, std::string_view value)>;
  Watched(std::shared_ptr<MeetingRoom> room, int rank, int size, BeforePut before_put,
          std::string secret = "a secret of this room")
      : MemoryRendezvous(std::move(room), rank, size),
        before_put_(std::move(before_put)),
        secret_(std::move(secret)) {}
  void put(const std::string& key, std::string_view value) override {
    if (before_put_) before_put_(key, value);
    MemoryRendezvous::put(key, value);
  }
  std::string secret() override { return secret_; }

 private:
  BeforePut before_put_;
  std::string secret_;
};

Membership members(int rank, int size, std::shared_ptr<Rendezvous> rendezvous) {
  Membership members{.name = "group", .ranks = {}, .rank = rank, .rendezvous = rendezvous};
  for (int other = 0; other < size; ++other) members.ranks.push_back(other);
  return members;
}

// Returns the addresses that a rank announces, each a sockaddr_storage and a number.
constexpr size_t address_bytes = sizeof(sockaddr_storage) + sizeof(int64_t);
std::vector<Endpoint> endpoints_in(std::string_view addresses) {
  std::vector<Endpoint> found;
  for (size_t at = 0; at + address_bytes <= addresses.size(); at += address_bytes) {
    sockaddr_in address;
    std::memcpy(&address, addresses.data() + at, sizeof address);
    char host[64] = {};
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    found.push_back({host, ntohs(address.sin_port)});
  }
  return found;
}

bool announces(const std::string& key) {
  return key.starts_with("group.gloo-") && key.find("connects") == key.npos;
}

// Connects first at every port of a rank: silent, with another protocol, or closing at once.
class Strangers {
 public:
  void come(std::string_view addresses, std::mt19937& random) {
    for (const Endpoint& endpoint : endpoints_in(addresses)) {
      std::string problem, bytes;
      Socket socket = Socket::connected(endpoint, seconds(5), problem);
      if (!socket.defined()) continue;
      const int what = (first + came) % 4;
      if (what == 1) bytes = "GET / HTTP/1.1\r\n\r\n";
      if (what == 2)
        for (int i = 0; i < 400; ++i) bytes += static_cast<char>(random());
      if (!bytes.empty()) socket.write_all(bytes, milliseconds(100));
      if (what != 3) here_.push_back(std::move(socket));
      ++came;
    }
  }
  int first = 0, came = 0;

 private:
  std::vector<Socket> here_;
};

}  // namespace

TEST_CASE("a write to a connection that the peer has closed fails and does no more") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  close(ends[1]);
  sigset_t only, waiting, before, after;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  {
    const BrokenPipeFails guard;
    CHECK(write(ends[0], "x", 1) == -1);
    CHECK(errno == EPIPE);
  }  // the signal would come here
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  CHECK(sigismember(&after, SIGPIPE) == sigismember(&before, SIGPIPE));

  // A thread that blocks the signal itself still finds it pending.
  pthread_sigmask(SIG_BLOCK, &only, &before);
  {
    const BrokenPipeFails guard;
    CHECK(write(ends[0], "x", 1) == -1);
  }
  sigpending(&waiting);
  CHECK(sigismember(&waiting, SIGPIPE) == 1);
  const timespec at_once = {};
  CHECK(sigtimedwait(&only, nullptr, &at_once) == SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[0]);
}

TEST_CASE("a rank that goes after it has announced itself is named while the others connect") {
  if (!has_backend("gloo")) return;
  const auto room = std::make_shared<MeetingRoom>();
  // Rank 1's address is higher than rank 0's, so rank 0 waits for it to connect.
  auto other = std::make_shared<MemoryRendezvous>(room, 1, 2);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  inet_pton(AF_INET, "127.255.0.1", &address.sin_addr);
  std::string announced(address_bytes, '\0');
  std::memcpy(announced.data(), &address, sizeof address);
  other->put("group.gloo-1-1", announced);
  std::thread leaves([&] {
    std::this_thread::sleep_for(milliseconds(500));
    other.reset();
  });
  const auto start = Clock::now();
  CHECK_THROWS_WITH_AS(make_gloo(members(0, 2, std::make_shared<MemoryRendezvous>(room, 0, 2))),
                       Contains("rank 1 (thread 1) has ended while other ranks still need it"),
                       Error);
  CHECK(Clock::now() - start < seconds(60));  // BOOSTER_TIMEOUT is 600
  leaves.join();
}

TEST_CASE("strangers that are first at a rank's ports are not taken for ranks, who connect anew") {
  if (!has_backend("gloo")) return;
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    constexpr int size = 3;
    std::mt19937 random(round);
    const int visited = std::uniform_int_distribution<>(0, size - 1)(random);
    Strangers strangers;
    strangers.first = (size - 1) * round;
    const auto room = std::make_shared<MeetingRoom>();
    std::vector<std::future<float>> sums;
    for (int rank = 0; rank < size; ++rank) {
      const auto visit = [&, rank](const std::string& key, std::string_view value) {
        if (rank == visited && announces(key) && key.find("gloo-1-") != key.npos)
          strangers.come(value, random);
      };
      sums.push_back(std::async(std::launch::async, [=] {
        const auto backend =
            make_gloo(members(rank, size, std::make_shared<Watched>(room, rank, size, visit)));
        std::vector<float> data(1000, static_cast<float>(rank + 1));
        backend->all_reduce(Buffer(data.data(), 1000, DType::f32), CollectiveOp::sum);
        backend->barrier();  // no rank leaves before all have finished
        return data[999];
      }));
    }
    for (auto& sum : sums) CHECK(sum.get() == 6);
    CHECK(strangers.came == size - 1);
  }
}

TEST_CASE("who connects in a rank's place without the secret of the run is refused by the others") {
  if (!has_backend("gloo")) return;
  const auto room = std::make_shared<MeetingRoom>();
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [=] {
      make_gloo(members(
          rank, 2,
          std::make_shared<Watched>(room, rank, 2, nullptr, rank == 0 ? "the secret" : "another")));
    }));
  CHECK_THROWS_WITH_AS(ranks[0].get(),
                       Contains("whoever has connected as rank 1 does not know the secret of the "
                                "run"),
                       Error);
  CHECK_THROWS_AS(ranks[1].get(), Error);
}
