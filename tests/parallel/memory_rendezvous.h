// Another kind of Rendezvous: ranks are threads of the test program and meet in its memory.
#pragma once

#include "parallel/groups/group.h"
#include "parallel/rendezvous/rendezvous.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// State shared by the ranks of one run.
struct MeetingRoom {
  std::string folder;  // "" if they have none
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::set<int> joined, left;
  std::string failure;
};

class MemoryRendezvous : public booster::Rendezvous {
 public:
  MemoryRendezvous(std::shared_ptr<MeetingRoom> room, int rank, int size);
  ~MemoryRendezvous() override;
  void wait_for(const std::vector<int>& ranks) override;
  void put(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, const std::vector<int>& ranks) override;
  std::string trouble(const std::vector<int>& ranks) override;
  void report_failure(std::string_view text) override;
  std::string secret() override { return "a secret of this room"; }
  std::string folder() const override { return room_->folder; }
  std::string machine() const override { return process(rank()); }

 protected:
  std::string process(int rank) const override;

 private:
  // Blocks until `ready`; throws as soon as one of `ranks` has left.
  void wait_until(const std::vector<int>& ranks, const std::function<bool()>& ready);
  std::string trouble_now(const std::vector<int>& ranks);

  std::shared_ptr<MeetingRoom> room_;
};

enum class Meeting {
  with_folder,    // the ranks can share memory
  without_folder  // like ranks on several machines
};

// Calls `body` with the group of all ranks on `size` threads. Returns a line "rank 1: text of the
// error" for every rank on which it threw.
std::string run_as_threads(int size, Meeting meeting,
                           const std::function<void(const booster::Group&)>& body);
