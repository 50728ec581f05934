// Times of collectives over ranks: in rings within each node, then between nodes.
//
// A reduce-scatter or all-gather of S bytes over p ranks takes
//   (p-1)/p S/B + min(p-1, log2(p)) a
// with the wire's bandwidth B and latency a; trees give the log2 term. With k ranks on each of n
// nodes, the ranks of a node communicate first; then each rank's result, S/k, is exchanged between
// nodes. The time is the sum of both. A rank sends (p-1)/p S in either case.
#pragma once

#include "tools/plan/machine.h"

namespace booster::plan {

struct Ring {
  int within = 1, nodes = 1;  // ranks on a node, and nodes
  Wire inside = {}, between = {};

  int ranks() const { return within * nodes; }
  // Returns the seconds for a reduce-scatter or an all-gather of `bytes` bytes in total.
  double half(double bytes) const;
  double all_reduce(double bytes) const { return 2 * half(bytes); }
  // Returns the seconds to send from a rank to the next. Counts a send between nodes if any two
  // neighbours are on different nodes.
  double send(double bytes) const;
  // Returns the 10^9 bytes that a rank sends in half(), and how many of them cross nodes.
  double sent(double bytes) const;
  double sent_between(double bytes) const;
  // Returns the ring's ranks on one node, and one rank of each node.
  Ring on_a_node() const { return {within, 1, inside, between}; }
  Ring over_nodes() const { return {1, nodes, inside, between}; }
};

// Returns the ring of `ranks` ranks of the cluster at distance `apart`. Ranks are ordered as in
// axes_of(): data is outermost, then pipeline, sequence and tensor.
Ring ring_of(const Cluster& cluster, int ranks, int apart);

}  // namespace booster::plan
