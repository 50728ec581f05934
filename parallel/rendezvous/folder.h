// The rendezvous of ranks on one machine: a private folder (mode 0700, owned by this user).
//
// Rank 0 holds a lock on `leader` and names the run's own subfolder in `current`, so that what a
// crashed run left behind is never taken for this one. Every rank holds a lock on its file there as
// long as it lives; the kernel drops the lock however the process ends, so the others can tell that
// it died, and which one. Rank 0 clears the subfolder away when it leaves; after a failure the last
// rank does, so that all can read whose it was. Thread-safe.
#pragma once

#include "parallel/rendezvous/rendezvous.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

class FolderRendezvous final : public Rendezvous {
 public:
  // Joins the run that meets in `folder`, which is made if it is absent. Error if the folder is not
  // private, if another living process has this rank, or if rank 0 does not come in time.
  FolderRendezvous(std::string folder, int rank, int size);
  ~FolderRendezvous() override;

  void wait_for(const std::vector<int>& ranks) override;
  void put(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, const std::vector<int>& ranks) override;
  std::string trouble(const std::vector<int>& ranks) override;
  void report_failure(std::string_view text) override;
  // The run's own subfolder.
  std::string folder() const override { return folder_; }

 protected:
  std::string process(int rank) const override;

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
  const Member* member(int rank) const;
  static bool lives(const Member& other);
  bool has_died(int rank) const;
  bool is_last() const;
  std::string missing(const std::vector<int>& ranks) const;

  std::string folder_;
  std::string meeting_place_;
  int leader_lock_ = -1;  // of rank 0
  int own_lock_ = -1;
  mutable std::mutex mutex_;
  mutable std::map<int, Member> members_;  // those seen so far
};

}  // namespace booster
