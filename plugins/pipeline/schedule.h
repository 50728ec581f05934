// Schedules of a pipeline: what each stage does with each microbatch, in which order. Pure data.
//
// With p stages, m microbatches and stages of equal cost, the share of time in which a stage is
// idle ("bubble"), and the microbatches whose activations a stage s = 0 .. p-1 holds at most:
//
//   style         bubble                                           activations
//   gpipe         (p-1) / (m+p-1)                                  m
//   one_f_one_b   (p-1) / (m+p-1)                                  min(p - s, m)
//   interleaved   (p-1) / (v m + p-1), v chunks on each stage      see docs/parallelism.md
//   zero_bubble   b / (m (F+B+W) + b), b = (p-1) max(F, B, F+B-W)  min(p, m), for m >= p
//
// where F, B, W are the times of a forward, of the gradient of an input and of the gradients of
// weights. Sources: GPipe (Huang et al., 2019); PipeDream-Flush (Narayanan et al., 2021a);
// interleaved: Megatron-LM (Narayanan et al., 2021b); ZB-H1 (Qi et al., 2024), whose formula
// (p-1)(F+B-W) is this one where W is the smallest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

enum class PipelineStyle : uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
// "gpipe", "1f1b", "interleaved", "zero_bubble"
const char* name_of(PipelineStyle style);
// Error with the nearest name if there is no such style.
PipelineStyle pipeline_style_named(const std::string& name);
std::vector<std::string> pipeline_style_names();

// The pieces of a model are dealt to stages like cards: piece k is chunk k / stages of stage
// k % stages.
struct PipelineAction {
  enum Kind : uint8_t {
    forward,
    backward,         // both gradients
    backward_input,   // what the piece before waits for
    backward_weight,  // the rest
  };
  Kind kind;
  int microbatch, chunk;
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// Of each stage, in order.
using PipelineSchedule = std::vector<std::vector<PipelineAction>>;

// Errors: sizes below 1; several chunks in a style other than interleaved and gpipe; microbatches
// that interleaving cannot divide among the stages.
PipelineSchedule make_schedule(PipelineStyle style, int stages, int microbatches, int chunks = 1);
// A pass without gradients.
PipelineSchedule make_forward_schedule(int stages, int microbatches, int chunks = 1);

}  // namespace booster
