// The meeting point of a run's ranks: they exchange small values there, and detect dead ranks.
//
// An interface; groups depend on nothing else of it. Kinds: a folder (parallel/rendezvous/folder.h)
// and, between machines, a store (parallel/rendezvous/store/store.h).
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

// Returns how long a rank waits for another before it fails: BOOSTER_TIMEOUT seconds, or 600.
std::chrono::milliseconds group_timeout();
// Returns how long a rank may show no sign of life before it counts as lost: BOOSTER_HEARTBEAT
// seconds, or
// 8. 0 means forever, for debuggers.
std::chrono::milliseconds heartbeat_limit();

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;  // this rank leaves
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits until all of `ranks` have joined; throws an error that names the missing or dead ranks.
  virtual void wait_for(const std::vector<int>& ranks) = 0;

  // Publishes a value to the other ranks. Keys are file names.
  virtual void put(const std::string& key, std::string_view value) = 0;
  // Waits until a rank has put the value; throws as soon as one of `ranks` has died.
  virtual std::string get(const std::string& key, const std::vector<int>& ranks) = 0;

  // Returns the problem of these ranks; "" while all live and none has reported a failure. The
  // run's first trouble is remembered, so that all ranks name the same culprit.
  virtual std::string trouble(const std::vector<int>& ranks) = 0;
  // Reports to the other ranks why this rank fails.
  virtual void report_failure(std::string_view text) = 0;

  // Returns the text that only the run's ranks know, equal on all.
  virtual std::string secret() = 0;
  // Returns an address of this machine at which the other ranks reach this one. All must have
  // joined.
  virtual std::string address() { return "127.0.0.1"; }

  // Returns a private folder that all ranks of the run can open, for files that they map; it is
  // removed with the run. "" if there is none: then ranks share no memory.
  virtual std::string folder() const { return ""; }

  // Returns a name for this rank's machine: ranks with the same name can share memory. It is
  // BOOSTER_MACHINE if set. Otherwise it combines the running kernel, the network and process
  // namespaces, and the user, so two containers are two machines.
  virtual std::string machine() const;

  // Returns "rank 2", or "rank 2 (data 1, tensor 0)" if ranks have places.
  std::string name(int rank) const;
  // Returns the same with the process: "rank 2 (data 1, tensor 0; pid 4242 on host)".
  std::string describe(int rank) const;
  // Sets the text that name() and describe() add to a rank's number; "" for none. It replaces
  // earlier ones, and only on this rank.
  void set_place(int rank, std::string place);

 protected:
  Rendezvous(int rank, int size) : rank_(rank), size_(size) {}
  // Returns the rank's process, "pid 4242 on host", or "" while it is unknown.
  virtual std::string process(int rank) const = 0;
  static std::string own_process();

 private:
  std::string place(int rank) const;

  int rank_, size_;
  mutable std::mutex mutex_;
  std::map<int, std::string> places_;  // by rank
};

}  // namespace booster
