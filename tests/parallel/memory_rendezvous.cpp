#include "tests/parallel/memory_rendezvous.h"

#include "platform/error.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

using namespace booster;

MemoryRendezvous::MemoryRendezvous(std::shared_ptr<MeetingRoom> room, int rank, int size)
    : Rendezvous(rank, size), room_(std::move(room)) {
  std::lock_guard lock(room_->mutex);
  room_->joined.insert(rank);
  room_->changed.notify_all();
}

MemoryRendezvous::~MemoryRendezvous() {
  std::lock_guard lock(room_->mutex);
  room_->left.insert(rank());
  room_->changed.notify_all();
}

void MemoryRendezvous::wait_until(const std::vector<int>& ranks,
                                  const std::function<bool()>& ready) {
  std::unique_lock lock(room_->mutex);
  std::string problem;
  const bool came = room_->changed.wait_for(lock, group_timeout(), [&] {
    return ready() || !(problem = trouble_now(ranks)).empty();
  });
  if (!problem.empty()) fail_run("rendezvous: {}", problem);
  if (!came) fail_run("rendezvous: the time is up");
}

void MemoryRendezvous::wait_for(const std::vector<int>& ranks) {
  wait_until(ranks, [&] {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return room_->joined.count(rank) > 0; });
  });
}

void MemoryRendezvous::put(const std::string& key, std::string_view value) {
  std::lock_guard lock(room_->mutex);
  room_->values[key] = value;
  room_->changed.notify_all();
}

std::string MemoryRendezvous::get(const std::string& key, const std::vector<int>& ranks) {
  wait_until(ranks, [&] { return room_->values.count(key) > 0; });
  std::lock_guard lock(room_->mutex);
  return room_->values.at(key);
}

std::string MemoryRendezvous::trouble_now(const std::vector<int>& ranks) {
  for (int other : ranks)
    if (room_->failure.empty() && room_->left.count(other) > 0)
      room_->failure = describe(other) + " has ended while other ranks still need it";
  return room_->failure;
}

std::string MemoryRendezvous::trouble(const std::vector<int>& ranks) {
  std::lock_guard lock(room_->mutex);
  return trouble_now(ranks);
}

void MemoryRendezvous::report_failure(std::string_view text) {
  std::lock_guard lock(room_->mutex);
  if (room_->failure.empty()) room_->failure = text;
  room_->changed.notify_all();
}

std::string MemoryRendezvous::process(int rank) const { return "thread " + std::to_string(rank); }

std::string run_as_threads(int size, Meeting meeting,
                           const std::function<void(const Group&)>& body) {
  const auto room = std::make_shared<MeetingRoom>();
  if (meeting == Meeting::with_folder) {
    room->folder = std::filesystem::temp_directory_path() / "booster-test-XXXXXX";
    if (!mkdtemp(room->folder.data())) throw std::runtime_error("mkdtemp failed");
  }
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(Group(std::make_shared<MemoryRendezvous>(room, rank, size)));
      } catch (const std::exception& error) {
        errors[rank] = fmt::format("rank {}: {}\n", rank, error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  if (!room->folder.empty()) std::filesystem::remove_all(room->folder);
  return std::accumulate(errors.begin(), errors.end(), std::string());
}
