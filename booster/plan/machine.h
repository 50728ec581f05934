// What a plan assumes of machines: how fast they compute, what they hold, how fast they talk. Plain
// values.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace booster::plan {

// Between ranks: what one of them sends per second in a large message, and the time of a small one.
struct Wire {
  double gbytes_per_s = 0;
  double seconds = 0;
};

struct Machine {
  std::string name;
  double memory_gib = 0;        // of a rank
  double gbytes_per_s = 0;      // that elementwise kernels reach, read and written
  double seconds_per_call = 0;  // that a kernel takes however small it is
  bool is_this_one = false;     // measured times count as they are
  // That large products reach, by dtype: "f32", "bf16".
  std::map<std::string, double> gflops_per_s = {};
};

// Ranks, one per device, `per_node` of them within each node.
struct Cluster {
  Machine machine;
  int nodes = 1, per_node = 1;
  Wire inside = {}, between = {};  // within a node, and from node to node

  int ranks() const { return nodes * per_node; }
};

// Nodes like the one that this runs on, each shared by so many ranks. `network` is in 10^9 bytes
// per second and rank; 0: those of a node share an Ethernet of 10 Gbit/s.
Cluster this_machine(int ranks, int nodes = 1, double network = 0);

// Nodes of GPUs of this name, as their makers' data sheets have them; a product is taken to reach
// two thirds of the peak, elementwise kernels 85 %. `network` is in 10^9 bytes per second and GPU;
// 0 is what such nodes usually have. Error with the nearest name for an unknown one.
Cluster gpu_cluster(const std::string& gpu, int nodes, int per_node, double network = 0);
std::vector<std::string> gpu_names();

}  // namespace booster::plan
