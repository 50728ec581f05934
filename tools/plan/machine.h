// Assumptions of a plan about machines: compute speed, memory and communication speed. Plain
// values.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace booster::plan {

// A connection between ranks: the rate at which one sends a large message, and the time of a small
// message.
struct Wire {
  double gbytes_per_s = 0;
  double seconds = 0;
};

struct Machine {
  std::string name;
  double memory_gib = 0;        // per rank
  double gbytes_per_s = 0;      // read and written by elementwise kernels
  double seconds_per_call = 0;  // least time of a kernel, however small
  bool is_this_one = false;     // uses measured times unchanged
  // Rate of large matrix products, by dtype: "f32", "bf16".
  std::map<std::string, double> gflops_per_s = {};
};

// Ranks, one per device; `per_node` of them on each node.
struct Cluster {
  Machine machine;
  int nodes = 1, per_node = 1;
  Wire inside = {}, between = {};  // within a node, and from node to node

  int ranks() const { return nodes * per_node; }
};

// Returns nodes like this machine, each shared by `ranks` ranks. `network` is in 10^9 bytes per
// second and rank; 0: the ranks of a node share 10 Gbit/s Ethernet.
Cluster this_machine(int ranks, int nodes = 1, double network = 0);

// Returns nodes with GPUs of this name, from their makers' data sheets. Assumes that a product
// reaches two thirds of the peak and elementwise kernels 85 %. `network` is in 10^9 bytes per
// second and GPU; 0 is the usual value for such nodes. For an unknown name, throws with the nearest
// name.
Cluster gpu_cluster(const std::string& gpu, int nodes, int per_node, double network = 0);
std::vector<std::string> gpu_names();

}  // namespace booster::plan
