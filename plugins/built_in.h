// The plugins that come with the library: their options, and functions that make them.
//
//   Booster booster({.plugin = TorchDDPPlugin({.bucket_cap_mb = 10})});
//
// The same plugins by name and config: booster/config/config.h. Each function throws for options
// out of range. All ranks call it with the same options. Plugins run on all ranks of the world
// unless they are given a mesh or a group. docs/parallelism.md compares them.
#pragma once

#include "plugins/interface/plugin.h"
#include "core/nn/module_traits.h"

#include <string>
#include <vector>

namespace booster {

// --- single: one process trains the whole model

struct SingleOptions {
  bool on_every_rank = false;  // each rank of a multi-rank run trains its own model
};

// Throws if a run tool started several ranks, which would train separately, unless `on_every_rank`
// is set.
PluginMaker SinglePlugin(SingleOptions options = {});

// --- torch_ddp: data parallelism, as torch's DistributedDataParallel. Every rank holds the whole
// model and sees its own share of the data; gradients are averaged. Details: plugins/torch_ddp.h

struct TorchDDPOptions {
  double bucket_cap_mb = 25;            // MiB of gradients per message, at most
  bool find_unused_parameters = false;  // parameters may take no part in a step
  bool broadcast_buffers = true;        // all ranks get rank 0's buffers after each step
  bool gradient_as_bucket_view = true;  // gradients live in the buckets; false: copied there
  bool static_graph = false;            // every step uses the same parameters
  std::string comm_dtype = "";          // f32 gradients travel as "fp16" or "bf16"
  bool join = false;                    // trains on uneven shares of the data
};

PluginMaker TorchDDPPlugin(TorchDDPOptions options = {});
PluginMaker TorchDDPPlugin(TorchDDPOptions options, Mesh mesh);

// --- low_level_zero: data parallelism that shards optimizer state (ZeRO stages 1 and 2). Details:
// plugins/low_level_zero.h

struct LowLevelZeroOptions {
  int64_t stage = 1;                    // 1: optimizer state; 2: also gradients
  double reduce_bucket_size_in_m = 12;  // elements per message, in units of 2^20
  bool overlap_communication = true;    // send buckets during backward
  bool overlap_allgather = false;       // step does not wait for parameters; each arrives at its
                                        // first use, usually by its layer
  bool cpu_offload = false;  // a GPU's optimizer state is in host memory, and steps run there
};

PluginMaker LowLevelZeroPlugin(LowLevelZeroOptions options = {});
PluginMaker LowLevelZeroPlugin(LowLevelZeroOptions options, Mesh mesh);

// --- fsdp: data parallelism that shards parameters too (ZeRO stage 3). Details: plugins/fsdp.h

struct FsdpOptions {
  std::string sharding = "full";  // "full": over all ranks; "hybrid": over groups of shard_size
                                  // neighbours, each with a complete copy
  int64_t shard_size = 0;         // 0: the ranks of one machine
  std::vector<std::string> wrap = {};  // patterns of module names; none: the model's blocks
  int64_t prefetch = 1;                // units gathered ahead
  bool recompute = false;              // units keep only their inputs, and run again in backward
  bool cpu_offload = false;  // parts and optimizer state of a GPU are in host memory, and steps run
                             // there
};

PluginMaker FsdpPlugin(FsdpOptions options = {});
PluginMaker FsdpPlugin(FsdpOptions options, Mesh mesh);

// --- hybrid_parallel: data, pipeline, sequence and tensor parallelism on one mesh, with ZeRO along
// the data axis. Details: plugins/hybrid_parallel.h

struct HybridParallelOptions {
  int64_t tp_size = 1;           // ranks that share layers
  int64_t pp_size = 1;           // ranks that have different layers, the stages of a pipeline
  int64_t sp_size = 1;           // ranks that share the tokens, in mode all_to_all or ring_attn
  int64_t dp_size = 0;           // ranks that see different data; 0: all remaining ranks
  int64_t zero_stage = 0;        // 0 none, 1 optimizer state, 2 and gradients, 3 and parameters
  TensorPlan tensor_plan = {};   // empty: the model's own plan
  bool parallel_output = false;  // only losses read logits without a gather:
                                 // core/tensor/spread_columns.h
  std::string sequence_parallelism_mode = "none";  // split_gather, all_to_all, ring_attn
  std::string sequence_blocks = "";  // pattern of the modules that work on some tokens;
                                     // empty: the model's known blocks
  // Pipeline: see docs/parallelism.md.
  std::string pp_style = "1f1b";     // gpipe, 1f1b, interleaved, zero_bubble
  int64_t num_microbatches = 0;      // of a batch; without this and the next: one per stage
  int64_t microbatch_size = 0;       // rows of each, at most
  int64_t num_model_chunks = 1;      // pieces of the model on each stage; interleaved: 2 or more
  std::vector<int64_t> stages = {};  // links of each piece; empty: by parameter counts
  std::vector<std::string> stage_links = {};  // the same, by each piece's first link
  std::vector<double> link_costs = {};        // costs per link, to be balanced over pieces
  std::string stage_costs = "parameters";     // used if none of these is given; "measured" times
                                              // each link, forward and backward
  bool recompute = false;     // blocks keep only their inputs, and run again in backward
  double bucket_cap_mb = 25;  // MiB of gradients per message along the data axis, at most
};

// Returns the mesh that the options define, for any number of ranks. It has one rank along data
// unless dp_size is given. Throws for incompatible options.
Layout layout_of(const HybridParallelOptions& options);

PluginMaker HybridParallelPlugin(HybridParallelOptions options = {});
// Runs on the ranks of `group` instead of all ranks of the world.
PluginMaker HybridParallelPlugin(HybridParallelOptions options, const Group& group);

}  // namespace booster
