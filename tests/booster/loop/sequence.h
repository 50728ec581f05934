// A random sequence of calls that a training loop may make. It can be written as a line of text,
// and shortened while it still fails.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace booster::loop {

// The models and data of a sequence.
struct Setup {
  std::string strategy;       // a row of strategies()
  bool two_models = false;    // an optimizer each, boosted together; false: one, which can be saved
  bool views = true;          // gradient_as_bucket_view
  bool finds_unused = false;  // find_unused_parameters
  bool is_static = false;     // static_graph
  std::string sent_as = "";   // comm_dtype
  int zero_stage = 0;         // 0: torch_ddp; 1, 2: low_level_zero; 3: fsdp
  bool late = false;          // overlap_allgather; nothing reads parameters right after a step
};

enum class Call : uint8_t {
  backward,  // forward and backward of a loss
  clip_value,
  clip_norm,
  halve,  // the program multiplies gradients that it sees by 0.5, after a clip or step
  zero_grad,
  step,
  evaluate,
  save,
  resume,  // into fresh objects, or into the current ones
};

struct Action {
  Call call = Call::step;
  int model = 0;  // for backward unused; else its optimizer is meant
  // For backward:
  int reaches = 1;          // models in the loss: bit 0 and bit 1
  int names = 1;            // optimizers given to backward
  bool local = false;       // under no_sync
  bool recomputes = false;  // forward runs inside checkpoint()
  bool twice = false;       // each weight is used twice
  bool pipeline = false;    // by execute_pipeline
  int overflow = -1;        // the rank on which the loss is infinite
  double factor = 1;        // of the loss
  // For clips:
  double limit = 1;
  // For resume:
  bool fresh = false;
};

struct Sequence {
  Setup setup;
  std::vector<Action> actions;
};

// What drawn sequences may contain for a strategy.
struct Limits {
  bool skips = true;         // steps with non-finite gradients are skipped
  bool local_passes = true;  // with two models: no_sync is allowed
  bool poisons = false;      // fp8: gradients after an overflow are finite but meaningless, and
                             // losses keep their magnitude
};

Sequence draw(std::mt19937& random, const Setup& setup, const Limits& limits, int ranks);

// Converts to text, "fp16 two views: backward AB names A local; step A; ...", and back.
std::string to_text(const Sequence& sequence);
Sequence from_text(const std::string& text);

// Drops setup choices and actions as long as `fails` returns true for the rest.
Sequence shortest(Sequence sequence, const std::function<bool(const Sequence&)>& fails);

}  // namespace booster::loop
