// The rendezvous of ranks on several machines: a small store over TCP, which rank 0's process runs
// (parallel/rendezvous/store/server.h).
//
// Every rank, rank 0 too, keeps one connection to it as long as it takes part. The store thus
// detects ranks that have ended. A rank that is stopped or disconnected shows no sign of life for
// BOOSTER_HEARTBEAT seconds (8), and counts as lost. All ranks must have the same BOOSTER_SECRET,
// which they prove but never send. Later messages are neither encrypted nor protected from a man in
// the middle. Thread-safe.
//
// Ranks may leave in any order. Rank 0's destructor serves the others until they have left, at most
// BOOSTER_TIMEOUT seconds (600). It does not wait if a rank has reported a failure, if an exception
// is on its way, or in quick_exit(), by which failed programs end.
#pragma once

#include "parallel/rendezvous/at_quick_exit.h"
#include "parallel/rendezvous/rendezvous.h"
#include "parallel/rendezvous/store/frames.h"
#include "parallel/rendezvous/store/server.h"
#include "parallel/rendezvous/store/socket.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace booster {

class StoreRendezvous final : public Rendezvous {
 public:
  // Joins this job's run at the endpoint, where rank 0 listens. Throws if it cannot, if another job
  // meets there, if the rank is taken, if the secret is missing or wrong, or if rank 0 does not
  // arrive in time. `job` is the result of job_of().
  StoreRendezvous(Endpoint endpoint, int rank, int size, std::string job);
  ~StoreRendezvous() override;

  void wait_for(const std::vector<int>& ranks) override;
  void put(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, const std::vector<int>& ranks) override;
  // Returns the value if a rank has put it and it has arrived. Never waits. Values that were asked
  // for arrive before the news that the rank that had put them is gone.
  std::optional<std::string> look(const std::string& key);
  std::string trouble(const std::vector<int>& ranks) override;
  // Returns true once a rank has left, or the store is lost. Tells no other rank.
  bool has_lost_one();
  void report_failure(std::string_view text) override;
  std::string secret() override { return run_secret_; }
  std::string address() override;

 protected:
  std::string process(int rank) const override;

 private:
  using Clock = std::chrono::steady_clock;
  void keep_store();
  void join();
  // Returns why there is no connection; sets `refusal` if the store does not accept this rank.
  std::string try_to_join(std::string& refusal);
  Frame next_frame(Clock::time_point end);
  void listen();
  void take(Frame frame);
  void send(const Frame& frame);
  void lose_store(const std::string& why);
  // With mutex_ held:
  std::optional<int> lost_of(const std::vector<int>& ranks) const;
  std::string missing(const std::vector<int>& ranks) const;
  template <class Ready, class Hopeless, class Where>
  bool wait_until(std::vector<int> ranks, Ready&& ready, Hopeless&& hopeless, Where&& where);

  // Leaves the run. On rank 0 it serves the other ranks for at most `longest`.
  void leave(std::chrono::milliseconds longest);

  Endpoint endpoint_;
  std::string job_, secret_, run_secret_;
  std::unique_ptr<StoreServer> server_;  // only on rank 0
  Socket socket_;
  FrameReader reader_{longest_store_frame};
  std::mutex sending_;
  std::chrono::milliseconds heartbeat_, timeout_;
  std::atomic<bool> leaving_ = false, gave_up_ = false;
  std::thread listener_;
  std::optional<AtQuickExit> at_quick_exit_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::set<std::string> asked_;           // keys that look() has requested
  std::set<std::string> absent_;          // keys that had no value when the store answered
  std::map<int, std::string> processes_;  // of the ranks that have joined
  std::map<int, std::string> left_;       // ranks that are gone: why
  std::string failure_;
  bool lost_store_ = false;
};

}  // namespace booster
