// Random pipeline schedules against theory.
#include "platform/error.h"
#include "plugins/pipeline/schedule.h"
#include "plugins/pipeline/schedule_timing.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

using namespace booster;
using Action = PipelineAction;

namespace {

struct Drawn {
  PipelineStyle style;
  int stages, microbatches, chunks = 1;
  ActionCosts costs;
};

Drawn drawn(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto cost = [&] { return 1 + below(8) * 0.25; };
  constexpr PipelineStyle styles[] = {PipelineStyle::gpipe, PipelineStyle::one_f_one_b,
                                      PipelineStyle::interleaved, PipelineStyle::zero_bubble};
  Drawn drawn{styles[below(4)], 1 + below(6), 1 + below(14), 1, {cost(), cost(), cost()}};
  if (drawn.style == PipelineStyle::interleaved) {
    drawn.microbatches = drawn.stages * (1 + below(4));
    drawn.chunks = 1 + below(4);
  }
  if (drawn.style == PipelineStyle::gpipe) drawn.chunks = 1 + below(3);
  return drawn;
}

PipelineSchedule schedule_of(const Drawn& d) {
  return make_schedule(d.style, d.stages, d.microbatches, d.chunks);
}

// Returns a stage's idle time, in units of a micro-batch's F + B + W.
double bubble_time(const Drawn& d) {
  const auto [f, b, w] = d.costs;
  const double ramps = d.stages - 1;
  return d.style == PipelineStyle::zero_bubble ? ramps * std::max({f, b, f + b - w})
                                               : ramps * (f + b + w);
}

}  // namespace

TEST_CASE("each stage takes each microbatch forward and backward once per chunk") {
  for (const unsigned round : testing::draws(400)) {
    std::mt19937 random(round);
    const Drawn d = drawn(random);
    INFO(name_of(d.style), " ", d.stages, " ", d.microbatches, " ", d.chunks);
    for (const auto& actions : schedule_of(d)) {
      std::set<std::tuple<int, int, int>> seen;  // half, microbatch, chunk
      for (const Action& action : actions) {
        const auto once = [&](int half) {
          CHECK(seen.insert({half, action.microbatch, action.chunk}).second);
        };
        const auto was = [&](int half) {
          return seen.count({half, action.microbatch, action.chunk}) > 0;
        };
        if (action.kind == Action::forward) once(0);
        if (action.kind == Action::backward_weight) CHECK(was(1));
        if (action.kind == Action::backward || action.kind == Action::backward_input) {
          CHECK(was(0));
          once(1);
        }
        if (action.kind == Action::backward || action.kind == Action::backward_weight) once(2);
        CHECK((action.microbatch >= 0 && action.microbatch < d.microbatches));
        CHECK((action.chunk >= 0 && action.chunk < d.chunks));
      }
      CHECK(seen.size() == static_cast<size_t>(3 * d.microbatches * d.chunks));
    }
  }
}

// Then leaves receive their contributions in micro-batch order in every style, with the same bits.
TEST_CASE("gradients of weights come in the order of microbatches") {
  for (const unsigned round : testing::draws(400)) {
    std::mt19937 random(round);
    const Drawn d = drawn(random);
    for (const auto& actions : schedule_of(d))
      for (int chunk = 0; chunk < d.chunks; ++chunk) {
        int next = 0;
        for (const Action& action : actions)
          if (action.chunk == chunk &&
              (action.kind == Action::backward || action.kind == Action::backward_weight))
            CHECK(action.microbatch == next++);
      }
  }
}

TEST_CASE("no schedule comes to a stop, and its bubble is that of theory") {
  for (const unsigned round : testing::draws(600)) {
    std::mt19937 random(round);
    const Drawn d = drawn(random);
    const ScheduleTiming timing = time_schedule(schedule_of(d), d.costs);  // throws on a deadlock
    const bool too_few = d.style == PipelineStyle::zero_bubble && d.microbatches < d.stages;
    if (too_few || (d.style == PipelineStyle::gpipe && d.chunks > 1)) continue;
    const auto [f, b, w] = d.costs;
    const double work = d.microbatches * d.chunks * (f + b + w), idle = bubble_time(d);
    INFO(name_of(d.style), " ", d.stages, " ", d.microbatches, " ", d.chunks, " costs ",
         d.costs.forward, " ", d.costs.input, " ", d.costs.weight);
    CHECK(timing.makespan == doctest::Approx(work + idle));
    CHECK(timing.bubble == doctest::Approx(idle / (work + idle)));
  }
}

TEST_CASE("stages hold no more activations than their style promises") {
  for (const unsigned round : testing::draws(400)) {
    std::mt19937 random(round);
    const Drawn d = drawn(random);
    const std::vector<int> peaks = time_schedule(schedule_of(d)).peak_activations;
    for (int stage = 0; stage < d.stages; ++stage) {
      const int peak = peaks[static_cast<size_t>(stage)], left = d.stages - stage;
      INFO(name_of(d.style), " ", d.stages, " ", d.microbatches, " ", d.chunks, " stage ", stage);
      switch (d.style) {
        case PipelineStyle::gpipe: CHECK(peak == d.microbatches * d.chunks); break;
        case PipelineStyle::one_f_one_b: CHECK(peak == std::min(left, d.microbatches)); break;
        case PipelineStyle::zero_bubble: CHECK(peak <= std::min(d.stages, d.microbatches)); break;
        case PipelineStyle::interleaved: {
          const int ahead = d.chunks == 1 ? left : 2 * left - 1 + (d.chunks - 1) * d.stages;
          CHECK(peak == std::min(ahead, d.microbatches * d.chunks));
          break;
        }
      }
    }
  }
}

TEST_CASE("a forward schedule takes each microbatch through each chunk") {
  for (const auto& actions : make_forward_schedule(3, 4, 2)) {
    CHECK(actions.size() == 8);
    for (const Action& action : actions) CHECK(action.kind == Action::forward);
  }
  CHECK(time_schedule(make_forward_schedule(3, 4, 2)).makespan == 8 + 2);
}

TEST_CASE("schedules that cannot be are errors that say what would fit") {
  const auto wrong = [](PipelineStyle style, int stages, int microbatches, int chunks,
                        const char* text) {
    CHECK_THROWS_WITH_AS(make_schedule(style, stages, microbatches, chunks),
                         doctest::Contains(text), Error);
  };
  wrong(PipelineStyle::interleaved, 3, 4, 2, "need a multiple of 3 microbatches; got 4");
  wrong(PipelineStyle::one_f_one_b, 3, 4, 2, "got 2 chunks, want style interleaved");
  wrong(PipelineStyle::gpipe, 0, 4, 1, "at least 1; got 0 stages");
  CHECK_THROWS_WITH_AS(pipeline_style_named("1f1"), doctest::Contains("1f1b"), Error);
  for (const std::string& name : pipeline_style_names())
    CHECK(name_of(pipeline_style_named(name)) == name);
  const PipelineSchedule stuck = {{{Action::backward, 0, 0}, {Action::forward, 0, 0}}};
  CHECK_THROWS_WITH_AS(time_schedule(stuck), doctest::Contains("wait for each other"), Error);
}
