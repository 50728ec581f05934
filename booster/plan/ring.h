// Ranks that share something, and how long their collectives take: in rings within each node and,
// behind those, from node to node.
//
// A reduce-scatter or all-gather of S bytes among p ranks takes (p-1)/p S/B + (p-1) a, where B is
// the wire's bandwidth and a its latency; trees make the second term log2(p) a, which is taken
// where it is less. With k ranks on each of n nodes, those of a node come first, and what each then
// has, S/k, goes from node to node: the sum of both. A rank sends (p-1)/p S either way.
#pragma once

#include "booster/plan/machine.h"

namespace booster::plan {

struct Ring {
  int within = 1, nodes = 1;  // ranks on a node, and nodes
  Wire inside = {}, between = {};

  int ranks() const { return within * nodes; }
  // Seconds for a reduce-scatter or an all-gather of so many bytes in all.
  double half(double bytes) const;
  double all_reduce(double bytes) const { return 2 * half(bytes); }
  // From a rank to the next one, where these are on two nodes if any are.
  double send(double bytes) const;
  // 10^9 bytes that a rank sends by half(), and those of them that go from node to node.
  double sent(double bytes) const;
  double sent_between(double bytes) const;
  // Its ranks on a node alone, and one of each node.
  Ring on_a_node() const { return {within, 1, inside, between}; }
  Ring over_nodes() const { return {1, nodes, inside, between}; }
};

// `ranks` of the cluster, of which each is `apart` after the last: ranks lie as in axes_of(), data
// outermost, then pipeline, sequence and tensor.
Ring ring_of(const Cluster& cluster, int ranks, int apart);

}  // namespace booster::plan
