#include "plugins/pipeline/schedule_timing.h"

#include "platform/error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace booster {
namespace {

class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const ActionCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        next_(schedule.size()),
        free_at_(schedule.size()),
        held_(schedule.size()) {
    timing_.peak_activations.resize(schedule.size());
    for (const auto& actions : schedule)
      for (const PipelineAction& action : actions)
        last_piece_ = std::max(last_piece_, piece(action, schedule.size() - 1));
  }

  ScheduleTiming run() {
    size_t done = 0, all = 0;
    for (const auto& actions : schedule_) all += actions.size();
    for (size_t before = all; done < all && done != before;) {
      before = done;
      for (size_t stage = 0; stage < schedule_.size(); ++stage)
        while (next_[stage] < schedule_[stage].size() && advance(stage)) ++done;
    }
    check(done == all,
          "pipeline: the stages wait for each other forever; {} of {} actions were done", done,
          all);
    for (const double time : free_at_) timing_.makespan = std::max(timing_.makespan, time);
    const double whole = timing_.makespan * static_cast<double>(schedule_.size());
    timing_.bubble = whole > 0 ? 1 - work_ / whole : 0;
    return timing_;
  }

 private:
  using Kind = PipelineAction::Kind;
  // A result with a time: a piece's output (false) or its input's gradient (true), microbatch,
  // piece.
  using Key = std::tuple<bool, int, int>;

  int piece(const PipelineAction& action, size_t stage) const {
    return action.chunk * static_cast<int>(schedule_.size()) + static_cast<int>(stage);
  }

  double cost_of(Kind kind) const {
    switch (kind) {
      case Kind::forward: return costs_.forward;
      case Kind::backward: return costs_.input + costs_.weight;
      case Kind::backward_input: return costs_.input;
      case Kind::backward_weight: break;
    }
    return costs_.weight;
  }

  // Returns when the action's inputs are ready; nothing if that is not known yet.
  std::optional<double> ready_at(const PipelineAction& action, size_t stage) const {
    const int i = action.microbatch, at = piece(action, stage);
    double time = 0;
    bool is_known = true;
    const auto need = [&](const Key& key) {
      const auto known = known_at_.find(key);
      if (known == known_at_.end())
        is_known = false;
      else
        time = std::max(time, known->second);
    };
    if (action.kind == Kind::forward && at > 0) need({false, i, at - 1});
    if (action.kind == Kind::backward_weight) need({true, i, at});
    if (action.kind == Kind::backward || action.kind == Kind::backward_input) {
      need({false, i, at});
      if (at < last_piece_) need({true, i, at + 1});
    }
    return is_known ? std::optional(time) : std::nullopt;
  }

  bool advance(size_t stage) {
    const PipelineAction& action = schedule_[stage][next_[stage]];
    const auto ready = ready_at(action, stage);
    if (!ready) return false;
    const double cost = cost_of(action.kind);
    const double end = free_at_[stage] = std::max(free_at_[stage], *ready) + cost;
    work_ += cost;
    ++next_[stage];
    const bool is_forward = action.kind == Kind::forward;
    if (action.kind != Kind::backward_weight)
      known_at_[{!is_forward, action.microbatch, piece(action, stage)}] = end;
    if (is_forward) ++held_[stage];
    if (action.kind == Kind::backward || action.kind == Kind::backward_weight) --held_[stage];
    timing_.peak_activations[stage] = std::max(timing_.peak_activations[stage], held_[stage]);
    return true;
  }

  const PipelineSchedule& schedule_;
  ActionCosts costs_;
  std::vector<size_t> next_;
  std::vector<double> free_at_;
  std::vector<int> held_;
  std::map<Key, double> known_at_;
  double work_ = 0;
  int last_piece_ = 0;
  ScheduleTiming timing_;
};

}  // namespace

ScheduleTiming time_schedule(const PipelineSchedule& schedule, const ActionCosts& costs) {
  return Simulation(schedule, costs).run();
}

}  // namespace booster
