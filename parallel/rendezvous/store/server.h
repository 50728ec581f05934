// The store at which ranks on several machines meet; rank 0's process runs it, on its own thread.
//
// Ranks must prove that they know the secret before the store uses their messages, and the store
// proves it to them. A rank takes part once it sends a message after its welcome. A rank that gave
// up before that may join again. The store disconnects a client that has not proved the secret
// within a few seconds, and the oldest of too many such clients. Frames and the total size of all
// values are limited.
//
// The store outlives rank 0's part in the run: finish() serves the ranks that are still there.
#pragma once

#include "parallel/rendezvous/store/frames.h"
#include "parallel/rendezvous/store/silence.h"
#include "parallel/rendezvous/store/socket.h"

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace booster {

constexpr size_t longest_store_frame = 1 << 20;

class StoreServer {
 public:
  struct Run {
    int size = 0;
    std::string job;  // the same on all ranks
    std::string secret;
  };
  // Throws if it cannot listen at the endpoint.
  StoreServer(Socket listener, Run run);
  // Sends the remaining data, for at most a second.
  ~StoreServer();

  // Call it once this process's own rank has left. Serves until the other ranks that have come are
  // gone or a rank has reported a failure, at most for `longest`. A rank that has crashed, or has
  // been silent for BOOSTER_HEARTBEAT seconds, is gone. At most once.
  void finish(std::chrono::milliseconds longest);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Socket socket;
    std::string nonce;
    FrameReader reader;
    std::string outgoing;
    Clock::time_point since;
    Silence silence;
    bool ready = true;         // may have data to read, or accept data
    int rank = -1;             // -1: has not proved that it knows the secret
    std::string process = {};  // as it states
    bool takes_part = false;   // has sent a message since its welcome
    bool closing = false;      // close once `outgoing` is sent
    bool gone = false;
    std::string why = {};  // the reason, if the peer did not end normally
  };

  void serve();
  bool is_done() const;
  void wait();
  void accept_all();
  void serve(Peer& peer);
  void read(Peer& peer);
  void answer(Peer& peer, const Frame& frame);
  void welcome(Peer& peer, const Frame& hello);
  void admit(Peer& peer);
  void refuse(Peer& peer, const std::string& why);
  std::string objection(const Frame& hello) const;
  void put(const std::string& key, const std::string& value);
  void fail_run_once(const std::string& why);
  void find_address(const Peer& peer);
  void drop_silent();
  void drop_gone();
  void tell(Peer& peer, Frame frame);
  void tell_all(const Frame& frame);

  Socket listener_;
  Run run_;
  std::string name_;  // random, of this run
  std::chrono::milliseconds heartbeat_;
  std::list<Peer> peers_;
  std::map<int, std::string> processes_;  // of all ranks that ever took part
  std::map<int, std::string> left_;       // ranks that are gone, and why
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<int>> waiting_;  // ranks, by awaited key
  size_t stored_ = 0;                                // bytes of all values
  std::string failure_;
  Clock::time_point told_alive_;
  Clock::time_point full_until_;   // no descriptor was left for a new connection
  Clock::time_point last_moment_;  // set before stopping_
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace booster
