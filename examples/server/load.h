// Latencies of requests, and clients that make some.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace server {

// Thread-safe.
class Latencies {
 public:
  void add(std::chrono::duration<double> latency);
  // Returns "800 requests, 98.3 a second; latency p50 9.1 ms, p95 14.0 ms, p99 20.1 ms", counted
  // since the first request began; "0 requests" if there were none.
  std::string summary() const;

 private:
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  std::vector<double> seconds_;
  Clock::time_point first_, last_;
};

struct Load {
  int clients = 8;
  int requests = 400;  // of all clients together
};

// Posts `body` to /predict from several connections at the same time. Returns the latencies that
// the clients see. Throws if an answer is not 200.
void make_requests(int port, const std::string& body, const Load& load, Latencies& latencies);

}  // namespace server
