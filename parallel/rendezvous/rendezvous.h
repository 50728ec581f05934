// Where the ranks of one machine meet: a private folder (mode 0700, owned by this user).
//
// Rank 0 holds a lock on `leader` and names the run's own subfolder in `current`, so that what a
// crashed run left behind is never taken for this one. Every rank holds a lock on its file there as
// long as it lives; the kernel drops the lock however the process ends, so the others can tell that
// it died, and which one. Rank 0 clears the subfolder away when it leaves; after a failure the last
// rank does, so that all can read whose it was. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Seconds after which a rank that waits for another gives up: BOOSTER_TIMEOUT, or 600.
std::chrono::milliseconds group_timeout();

class Rendezvous {
 public:
  // Joins the run that meets in `folder`, which is made if it is absent. Error if the folder is not
  // private, if another living process has this rank, or if rank 0 does not come in time.
  Rendezvous(std::string folder, int rank, int size);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The run's own subfolder.
  const std::string& folder() const { return folder_; }

  // Waits until all of `ranks` have joined; error that names who is missing or has died.
  void wait_for(const std::vector<int>& ranks);

  // A value for the others to see. Keys are file names.
  void put(const std::string& key, std::string_view value);
  // Waits until somebody has put it; error as soon as one of `ranks` has died.
  std::string get(const std::string& key, const std::vector<int>& ranks);

  // What is wrong with these ranks: "" while all live and none has reported a failure. The first
  // trouble of the run is remembered, so that all name the same culprit.
  std::string trouble(const std::vector<int>& ranks);
  // Tells the others why this rank gives up.
  void report_failure(std::string_view text);
  // "rank 2 (pid 4242 on host)".
  std::string describe(int rank);

 private:
  struct Member {
    int lock = -1;      // descriptor of its file
    std::string label;  // "pid 4242 on host"
  };
  void lead();
  void follow();
  bool lock_leader();
  // The run that meets here now, if its rank 0 lives and this rank's place in it is free.
  std::string current_run() const;
  void take_place();
  Member* member(int rank);
  static bool lives(const Member& other);
  bool has_died(int rank);
  bool is_last();
  std::string missing(const std::vector<int>& ranks);

  int rank_, size_;
  std::string folder_;
  std::string meeting_place_;
  int leader_lock_ = -1;  // of rank 0
  int own_lock_ = -1;
  std::mutex mutex_;
  std::map<int, Member> members_;
};

}  // namespace booster
