// The store at which ranks on several machines meet: rank 0's process keeps it, on a thread of its
// own.
//
// Ranks show that they know the secret before anything that they say counts, and the store shows
// it to them. A rank takes part once it is heard after it was welcomed: one that has given up
// meanwhile may come again. Whoever does not within a few seconds is cut off, and so is the oldest
// of too many that have not yet. Frames and the sum of all values are limited.
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
    std::string job;  // as all ranks must give it
    std::string secret;
  };
  // Error if the endpoint cannot be listened at.
  StoreServer(Socket listener, Run run);
  // Sends what is still to be sent, for a second at most.
  ~StoreServer();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Socket socket;
    std::string nonce;
    FrameReader reader;
    std::string outgoing;
    Clock::time_point since;
    Silence silence;
    bool ready = true;         // may have something to read, or room to write to
    int rank = -1;             // -1: has not shown that it knows the secret
    std::string process = {};  // which it says it is
    bool takes_part = false;   // has been heard since it was welcomed
    bool closing = false;      // once `outgoing` is sent
    bool gone = false;
    std::string why = {};  // it is, if there is more to say than that
  };

  void serve();
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
  std::map<int, std::string> left_;       // those that are gone, and why
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<int>> waiting_;  // ranks, by the key that they want
  size_t stored_ = 0;                                // bytes of all values
  std::string failure_;
  Clock::time_point told_alive_;
  Clock::time_point full_until_;  // no descriptor was left for who connected
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace booster
