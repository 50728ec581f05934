#include "examples/server/load.h"

#include "examples/server/http.h"

#include <booster/booster.h>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace server {

void Latencies::add(std::chrono::duration<double> latency) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto began = now - std::chrono::duration_cast<Clock::duration>(latency);
  if (seconds_.empty() || began < first_) first_ = began;
  last_ = now;
  seconds_.push_back(latency.count());
}

std::string Latencies::summary() const {
  const std::lock_guard lock(mutex_);
  if (seconds_.empty()) return "0 requests";
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  // The smallest latency that this share of all requests does not exceed.
  const auto percentile = [&](double share) {
    return 1000 * sorted[static_cast<size_t>(std::ceil(share * n)) - 1];
  };
  const std::chrono::duration<double> all = last_ - first_;
  return fmt::format(
      "{} requests, {:.1f} a second; latency p50 {:.1f} ms, p95 {:.1f} ms, p99 {:.1f} ms",
      sorted.size(), n / all.count(), percentile(0.5), percentile(0.95), percentile(0.99));
}

void make_requests(int port, const std::string& body, const Load& load, Latencies& latencies) {
  const std::string request =
      fmt::format("POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body);
  std::atomic<int> next = 0, failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < load.clients; ++i)
    clients.emplace_back([&] {
      const int connection = connect_to(port);
      std::string rest;
      while (next++ < load.requests) {
        const auto begin = std::chrono::steady_clock::now();
        const bool sent = send_all(connection, request);
        const auto answer = sent ? read_message(connection, rest) : std::nullopt;
        latencies.add(std::chrono::steady_clock::now() - begin);
        if (!answer || !answer->first_line.starts_with("HTTP/1.1 200")) ++failed;
      }
      close(connection);
    });
  for (std::thread& client : clients) client.join();
  if (failed > 0)
    booster::fail_run("server: {} of {} requests failed", failed.load(), load.requests);
}

}  // namespace server
