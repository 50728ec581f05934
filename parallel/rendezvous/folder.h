// The rendezvous of ranks on one machine, in a private folder (mode 0700, owned by this user).
//
// Rank 0 holds the place `leader`. Its text names the job that meets here and the subfolder
// `run-XXXXXX`. Remains of a crashed run thus never count as this run. Every rank holds a place
// there as long as it lives, so the others can detect its death. Two jobs in one folder never mix:
// a process whose job differs from the first rank 0's, or whose rank is taken, ends with an error.
// Rank 0 removes the subfolder when it leaves. After a failure the last rank removes it, so that
// all can read the cause. Ranks also leave when the process ends by exit() or quick_exit().
// Thread-safe.
#pragma once

#include "parallel/rendezvous/at_quick_exit.h"
#include "parallel/rendezvous/place.h"
#include "parallel/rendezvous/rendezvous.h"
#include "parallel/rendezvous/stopped_processes.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

class FolderRendezvous final : public Rendezvous {
 public:
  // Joins this job's run in `folder`; makes the folder if it is absent. Throws if the folder is not
  // private, if another job meets there, if another living process has this rank, or if rank 0 does
  // not arrive in time. `job` is the result of job_of().
  FolderRendezvous(std::string folder, int rank, int size, std::string job);
  ~FolderRendezvous() override;

  void wait_for(const std::vector<int>& ranks) override;
  void put(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, const std::vector<int>& ranks) override;
  std::string trouble(const std::vector<int>& ranks) override;
  void report_failure(std::string_view text) override;
  std::string secret() override { return get("secret", {0}); }
  // Returns the run's own subfolder.
  std::string folder() const override { return folder_; }

 protected:
  std::string process(int rank) const override;

 private:
  // Each returns the current obstacle; "" if there is none, or if no rank has arrived yet.
  std::string try_to_join();
  std::string lead();
  std::string follow();
  [[noreturn]] void give_up(const std::string& obstacle) const;
  std::string other_leader(const Place& leader) const;
  void leave();
  void leave_in_failure();
  const Place* member(int rank) const;
  bool has_died(int rank) const;
  bool is_lost(int rank);
  bool is_last() const;
  std::string trouble_of(const std::vector<int>& ranks);
  std::string first_failure() const;  // the first report; "" for none
  void publish_failure(std::string_view text);
  std::string missing(const std::vector<int>& ranks) const;

  std::string meeting_place_, job_;
  std::string folder_;           // "" before this rank joins
  std::optional<Place> leader_;  // held by rank 0
  std::optional<Place> own_;
  std::optional<AtQuickExit> at_quick_exit_;
  std::atomic<bool> gave_up_ = false;  // this rank has reported the reason
  const std::chrono::milliseconds heartbeat_ = heartbeat_limit();
  mutable std::mutex mutex_;
  mutable std::map<int, Place> members_;  // those seen so far
  StoppedProcesses stopped_;
};

}  // namespace booster
