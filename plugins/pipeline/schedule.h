// Pipeline schedules: the order in which each stage processes its microbatches. Pure data.
//
// p stages of equal cost, m microbatches. "bubble" is the share of time in which a stage is idle.
// "activations" is the maximum of microbatches whose activations a stage s = 0 .. p-1 holds.
//
//   style         bubble                                           activations
//   gpipe         (p-1) / (m+p-1)                                  m
//   one_f_one_b   (p-1) / (m+p-1)                                  min(p - s, m)
//   interleaved   (p-1) / (v m + p-1), v chunks on each stage      see docs/parallelism.md
//   zero_bubble   b / (m (F+B+W) + b), b = (p-1) max(F, B, F+B-W)  min(p, m), for m >= p
//
// F, B and W are the times of a forward, of an input's gradient and of the weights' gradients.
// Sources: GPipe (Huang et al., 2019); PipeDream-Flush (Narayanan et al., 2021a); interleaved:
// Megatron-LM (Narayanan et al., 2021b); ZB-H1 (Qi et al., 2024), whose formula (p-1)(F+B-W) equals
// this one where W is the smallest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

enum class PipelineStyle : uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
// Returns "gpipe", "1f1b", "interleaved", "zero_bubble"
const char* name_of(PipelineStyle style);
// Throws with the nearest name for an unknown style.
PipelineStyle pipeline_style_named(const std::string& name);
std::vector<std::string> pipeline_style_names();

// Pieces of a model are assigned to stages in turn: piece k is chunk k / stages of stage k %
// stages.
struct PipelineAction {
  enum Kind : uint8_t {
    forward,
    backward,         // both gradients
    backward_input,   // the gradient that the previous piece waits for
    backward_weight,  // the rest
  };
  Kind kind;
  int microbatch, chunk;
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// The actions of each stage, in order.
using PipelineSchedule = std::vector<std::vector<PipelineAction>>;

// Throws for sizes below 1, for several chunks in a style other than interleaved and gpipe, and for
// microbatches that interleaving cannot divide among the stages.
PipelineSchedule make_schedule(PipelineStyle style, int stages, int microbatches, int chunks = 1);
// Makes the schedule of a pass without gradients.
PipelineSchedule make_forward_schedule(int stages, int microbatches, int chunks = 1);

}  // namespace booster
