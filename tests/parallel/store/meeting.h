// Ranks that meet at a store in one process, for tests.
#pragma once

#include "parallel/rendezvous/store/store.h"
#include "tests/parallel/ranks.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace booster {

struct Variable {
  Variable(const char* name, const std::string& value) : name(name) {
    const char* found = std::getenv(name);
    if (found) before = found;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before ? setenv(name, before->c_str(), 1) : unsetenv(name); }
  const char* name;
  std::optional<std::string> before;
};

inline Endpoint free_endpoint() {
  return Endpoint::from(over_store().environment.at("BOOSTER_RENDEZVOUS"));
}

// The ranks of a run. Rank 0 leaves last here, because it waits until the others have left.
struct MetRanks : std::vector<std::unique_ptr<StoreRendezvous>> {
  using std::vector<std::unique_ptr<StoreRendezvous>>::vector;
  MetRanks(MetRanks&&) = default;
  ~MetRanks() {
    while (!empty()) pop_back();
  }
};

// Joins all ranks in this process, each on its own thread.
inline MetRanks meet_all(const Endpoint& endpoint, int size) {
  MetRanks all(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      all[static_cast<size_t>(rank)] =
          std::make_unique<StoreRendezvous>(endpoint, rank, size, "job");
    });
  for (std::thread& thread : threads) thread.join();
  return all;
}

inline bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    if (holds()) return true;
  return false;
}

}  // namespace booster
