#include "tools/plan/ring.h"

#include <algorithm>
#include <cmath>

namespace booster::plan {

namespace {

double share_sent(int ranks) { return (ranks - 1.0) / ranks; }

double half_seconds(int ranks, const Wire& wire, double bytes) {
  if (ranks == 1) return 0;
  const double latency = std::min<double>(ranks - 1, std::log2(ranks)) * wire.seconds;
  return share_sent(ranks) * bytes * 1e-9 / wire.gbytes_per_s + latency;
}

}  // namespace

double Ring::half(double bytes) const {
  return half_seconds(within, inside, bytes) + half_seconds(nodes, between, bytes / within);
}

double Ring::send(double bytes) const {
  if (ranks() == 1) return 0;
  const Wire& wire = nodes > 1 ? between : inside;
  return bytes * 1e-9 / wire.gbytes_per_s + wire.seconds;
}

double Ring::sent(double bytes) const { return share_sent(ranks()) * bytes * 1e-9; }

double Ring::sent_between(double bytes) const { return share_sent(nodes) * bytes / within * 1e-9; }

Ring ring_of(const Cluster& cluster, int ranks, int apart) {
  const int places = cluster.nodes == 1 ? ranks : std::max(1, cluster.per_node / apart);
  int within = std::min(ranks, places);
  while (ranks % within != 0) --within;  // the same number on each node
  return {within, ranks / within, cluster.inside, cluster.between};
}

}  // namespace booster::plan
