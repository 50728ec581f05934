#include "plugins/pipeline/schedule.h"

#include "platform/error.h"

#include <algorithm>

namespace booster {
namespace {

constexpr PipelineStyle all_styles[] = {PipelineStyle::gpipe, PipelineStyle::one_f_one_b,
                                        PipelineStyle::interleaved, PipelineStyle::zero_bubble};

using Actions = std::vector<PipelineAction>;

// One stage's forward and backward passes, each in order.
struct Orders {
  Actions forwards, backwards;
};

// Takes all microbatches through one chunk after another; backward from the last chunk.
Orders by_chunks(int microbatches, int chunks) {
  Orders orders;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int i = 0; i < microbatches; ++i) {
      orders.forwards.push_back({PipelineAction::forward, i, chunk});
      orders.backwards.push_back({PipelineAction::backward, i, chunks - 1 - chunk});
    }
  return orders;
}

// Takes one microbatch per stage through a chunk, then through the next.
Orders by_rounds(int stages, int microbatches, int chunks) {
  Orders orders;
  for (int round = 0; round < microbatches; round += stages)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = round; i < round + stages; ++i) {
        orders.forwards.push_back({PipelineAction::forward, i, chunk});
        orders.backwards.push_back({PipelineAction::backward, i, chunks - 1 - chunk});
      }
  return orders;
}

// Returns `ahead` forward passes, then alternating forward and backward passes.
Actions in_turn(const Orders& orders, int ahead) {
  const size_t count = orders.forwards.size(), first = static_cast<size_t>(ahead);
  Actions actions(orders.forwards.begin(),
                  orders.forwards.begin() + static_cast<long>(std::min(first, count)));
  for (size_t i = 0; i < count; ++i) {
    if (first + i < count) actions.push_back(orders.forwards[first + i]);
    actions.push_back(orders.backwards[i]);
  }
  return actions;
}

// Defers the weights' gradients of stage s by s microbatches. All stages then hold as many
// microbatches as the first one, and are busy while the pipeline drains.
Actions with_weights_apart(const Actions& in_turn, int stage) {
  Actions actions;
  int done = 0, put_off = 0;
  const auto do_weights = [&] {
    actions.push_back({PipelineAction::backward_weight, done++, 0});
    --put_off;
  };
  for (PipelineAction action : in_turn) {
    if (action.kind == PipelineAction::backward) action.kind = PipelineAction::backward_input;
    actions.push_back(action);
    if (action.kind != PipelineAction::backward_input) continue;
    if (++put_off > stage) do_weights();
  }
  while (put_off > 0) do_weights();
  return actions;
}

void check_sizes(int stages, int microbatches, int chunks) {
  check(stages >= 1 && microbatches >= 1 && chunks >= 1,
        "pipeline: sizes must be at least 1; got {} stages, {} microbatches, {} chunks", stages,
        microbatches, chunks);
}

Actions actions_of(PipelineStyle style, int stages, int stage, int microbatches, int chunks) {
  const Orders plain = by_chunks(microbatches, chunks);
  const int ahead = stages - 1 - stage;
  switch (style) {
    case PipelineStyle::gpipe: return in_turn(plain, microbatches * chunks);
    case PipelineStyle::one_f_one_b: return in_turn(plain, ahead);
    case PipelineStyle::zero_bubble: return with_weights_apart(in_turn(plain, ahead), stage);
    case PipelineStyle::interleaved: break;
  }
  if (chunks == 1) return in_turn(plain, ahead);
  return in_turn(by_rounds(stages, microbatches, chunks), 2 * ahead + (chunks - 1) * stages);
}

}  // namespace

const char* name_of(PipelineStyle style) {
  switch (style) {
    case PipelineStyle::gpipe: return "gpipe";
    case PipelineStyle::one_f_one_b: return "1f1b";
    case PipelineStyle::interleaved: return "interleaved";
    case PipelineStyle::zero_bubble: break;
  }
  return "zero_bubble";
}

std::vector<std::string> pipeline_style_names() {
  std::vector<std::string> names;
  for (const PipelineStyle style : all_styles) names.push_back(name_of(style));
  return names;
}

PipelineStyle pipeline_style_named(const std::string& name) {
  for (const PipelineStyle style : all_styles)
    if (name == name_of(style)) return style;
  fail("pipeline: unknown style; got {}{}", name, legal_names(name, pipeline_style_names()));
}

PipelineSchedule make_schedule(PipelineStyle style, int stages, int microbatches, int chunks) {
  check_sizes(stages, microbatches, chunks);
  check(chunks == 1 || style == PipelineStyle::interleaved || style == PipelineStyle::gpipe,
        "pipeline: {} holds one chunk of the model on each stage; got {} chunks, want style "
        "interleaved",
        name_of(style), chunks);
  check(style != PipelineStyle::interleaved || microbatches % stages == 0,
        "pipeline: interleaved stages need a multiple of {} microbatches; got {}", stages,
        microbatches);
  PipelineSchedule schedule;
  for (int stage = 0; stage < stages; ++stage)
    schedule.push_back(actions_of(style, stages, stage, microbatches, chunks));
  return schedule;
}

PipelineSchedule make_forward_schedule(int stages, int microbatches, int chunks) {
  check_sizes(stages, microbatches, chunks);
  return PipelineSchedule(static_cast<size_t>(stages), by_chunks(microbatches, chunks).forwards);
}

}  // namespace booster
