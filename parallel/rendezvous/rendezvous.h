// Where the ranks of a run meet: they tell each other small values there, and learn who has died.
//
// An interface; groups know nothing else of it. Kinds: a folder (parallel/rendezvous/folder.h) and,
// between machines, a store (parallel/rendezvous/store/store.h).
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Seconds after which a rank that waits for another gives up: BOOSTER_TIMEOUT, or 600.
std::chrono::milliseconds group_timeout();
// Seconds without a sign of life after which a rank counts as lost: BOOSTER_HEARTBEAT, or 8. 0: it
// never does, for debuggers.
std::chrono::milliseconds heartbeat_limit();

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;  // this rank takes part no more
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits until all of `ranks` have joined; error that names who is missing or has died.
  virtual void wait_for(const std::vector<int>& ranks) = 0;

  // A value for the others to see. Keys are file names.
  virtual void put(const std::string& key, std::string_view value) = 0;
  // Waits until somebody has put it; error as soon as one of `ranks` has died.
  virtual std::string get(const std::string& key, const std::vector<int>& ranks) = 0;

  // What is wrong with these ranks: "" while all live and none has reported a failure. The first
  // trouble of the run is remembered, so that all name the same culprit.
  virtual std::string trouble(const std::vector<int>& ranks) = 0;
  // Tells the others why this rank gives up.
  virtual void report_failure(std::string_view text) = 0;

  // A text that only the ranks of the run know; the same on all.
  virtual std::string secret() = 0;
  // Where the other ranks reach this one: an address of this machine. All must have joined.
  virtual std::string address() { return "127.0.0.1"; }

  // A private folder that all ranks of the run can open, for files that they map; it goes with the
  // run. "" where there is none: then ranks share no memory.
  virtual std::string folder() const { return ""; }

  // A name for where this rank is: ranks that give the same can share memory. BOOSTER_MACHINE, or
  // else the running kernel, the namespaces of networks and processes, and the user: two containers
  // are two machines.
  virtual std::string machine() const;

  // "rank 2", or "rank 2 (data 1, tensor 0)" where ranks have a place.
  std::string name(int rank) const;
  // The same with the process: "rank 2 (data 1, tensor 0; pid 4242 on host)".
  std::string describe(int rank) const;
  // What name() and describe() say of a rank besides its number; "" for nothing. The last call
  // counts, and only on this rank.
  void set_place(int rank, std::string place);

 protected:
  Rendezvous(int rank, int size) : rank_(rank), size_(size) {}
  // Which process the rank is: "pid 4242 on host", or "" while that is unknown.
  virtual std::string process(int rank) const = 0;
  static std::string own_process();

 private:
  std::string place(int rank) const;

  int rank_, size_;
  mutable std::mutex mutex_;
  std::map<int, std::string> places_;  // by rank
};

}  // namespace booster
