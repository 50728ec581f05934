#include "tests/booster/loop/sequence.h"

#include <array>
#include <sstream>
#include <utility>

namespace booster::loop {

namespace {

constexpr std::array call_names = {"backward", "clip_value", "clip_norm", "halve", "zero_grad",
                                   "step",     "evaluate",   "save",      "resume"};

// Short helpers for random draws.
class Dice {
 public:
  explicit Dice(std::mt19937& random) : random_(random) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  double one_of(std::initializer_list<double> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937& random_;
};

Action draw_backward(Dice& dice, const Setup& setup, const Limits& limits, int ranks) {
  Action action = {.call = Call::backward};
  if (setup.two_models) {
    action.reaches = 1 + dice.below(3);
    do action.names = 1 + dice.below(3);
    while ((action.names & action.reaches) != action.names);
  }
  action.local = dice.chance(35) && (limits.local_passes || !setup.two_models || ranks == 1);
  action.recomputes = dice.chance(30);
  action.twice = dice.chance(30);
  action.pipeline = !setup.two_models && dice.chance(15);
  if (limits.skips && dice.chance(10)) action.overflow = dice.below(ranks);
  if (!limits.poisons) action.factor = dice.one_of({0.5, 1});
  return action;
}

Call draw_call(Dice& dice, const Setup& setup) {
  const int at = dice.below(100);
  if (at < 40) return Call::backward;
  if (at < 44) return Call::halve;
  if (at < 50) return Call::clip_value;
  if (at < 58) return Call::clip_norm;
  if (at < 70) return Call::zero_grad;
  if (at < 90 || setup.two_models) return at < 94 ? Call::step : Call::evaluate;
  if (at < 94) return Call::evaluate;
  return at < 97 ? Call::save : Call::resume;
}

Action draw_action(Dice& dice, const Setup& setup, const Limits& limits, int ranks) {
  const Call call = draw_call(dice, setup);
  if (call == Call::backward) return draw_backward(dice, setup, limits, ranks);
  return {.call = call,
          .model = setup.two_models ? dice.below(2) : 0,
          .limit = dice.one_of({0.125, 0.5, 2, 64}),
          .fresh = dice.chance(50)};
}

}  // namespace

Sequence draw(std::mt19937& random, const Setup& setup, const Limits& limits, int ranks) {
  Dice dice(random);
  Sequence sequence = {setup, {}};
  const int length = 3 + dice.below(16);
  int poisoned = 0;  // bit mask of models
  while (static_cast<int>(sequence.actions.size()) < length) {
    const Action action = draw_action(dice, setup, limits, ranks);
    const int own = 1 << action.model;
    if (limits.poisons && action.call == Call::step && (poisoned & own) != 0) {
      sequence.actions.push_back(action);  // this one is skipped; another step would not be
      sequence.actions.push_back({.call = Call::zero_grad, .model = action.model});
      poisoned &= ~own;
      continue;
    }
    if (action.call == Call::backward && action.overflow >= 0) poisoned |= action.reaches;
    if (action.call == Call::zero_grad) poisoned &= ~own;
    if (action.call == Call::resume) poisoned = 0;
    sequence.actions.push_back(action);
  }
  return sequence;
}

namespace {

std::string models(int bits) { return std::string(bits & 1 ? "A" : "") + (bits & 2 ? "B" : ""); }
int bits_of(const std::string& models) {
  return (models.find('A') != models.npos ? 1 : 0) + (models.find('B') != models.npos ? 2 : 0);
}

void print(std::ostream& out, const Action& action) {
  out << call_names[static_cast<size_t>(action.call)];
  if (action.call == Call::backward) {
    out << " " << models(action.reaches) << " names " << models(action.names) << " factor "
        << action.factor;
    if (action.local) out << " local";
    if (action.recomputes) out << " recomputes";
    if (action.twice) out << " twice";
    if (action.pipeline) out << " pipeline";
    if (action.overflow >= 0) out << " overflow " << action.overflow;
    return;
  }
  out << " " << models(1 << action.model);
  if (action.call == Call::clip_value || action.call == Call::clip_norm)
    out << " limit " << action.limit;
  if (action.call == Call::resume && action.fresh) out << " fresh";
}

Action parse(std::istream& in) {
  Action action;
  std::string word;
  in >> word;
  for (size_t i = 0; i < call_names.size(); ++i)
    if (word == call_names[i]) action.call = static_cast<Call>(i);
  in >> word;
  action.reaches = bits_of(word);
  action.model = action.reaches == 2 ? 1 : 0;
  while (in >> word) {
    if (word == "names") {
      in >> word;
      action.names = bits_of(word);
    }
    if (word == "factor") in >> action.factor;
    if (word == "limit") in >> action.limit;
    if (word == "overflow") in >> action.overflow;
    if (word == "local") action.local = true;
    if (word == "recomputes") action.recomputes = true;
    if (word == "twice") action.twice = true;
    if (word == "pipeline") action.pipeline = true;
    if (word == "fresh") action.fresh = true;
  }
  return action;
}

}  // namespace

std::string to_text(const Sequence& sequence) {
  std::ostringstream out;
  const Setup& setup = sequence.setup;
  out << setup.strategy << "|" << (setup.two_models ? " two" : "") << (setup.views ? "" : " copies")
      << (setup.finds_unused ? " unused" : "") << (setup.is_static ? " static" : "");
  if (!setup.sent_as.empty()) out << " sent_" << setup.sent_as;
  if (setup.zero_stage) out << " zero" << setup.zero_stage;
  if (setup.late) out << " late";
  out << "|";
  for (const Action& action : sequence.actions) {
    out << " ";
    print(out, action);
    out << ";";
  }
  return out.str();
}

Sequence from_text(const std::string& text) {
  std::istringstream in(text);
  Sequence sequence;
  std::string part;
  std::getline(in, sequence.setup.strategy, '|');
  std::getline(in, part, '|');
  sequence.setup.two_models = part.find("two") != part.npos;
  sequence.setup.views = part.find("copies") == part.npos;
  sequence.setup.finds_unused = part.find("unused") != part.npos;
  sequence.setup.is_static = part.find("static") != part.npos;
  if (const size_t sent = part.find("sent_"); sent != part.npos)
    sequence.setup.sent_as = part.substr(sent + 5, 4);
  if (const size_t zero = part.find("zero"); zero != part.npos)
    sequence.setup.zero_stage = part[zero + 4] - '0';
  sequence.setup.late = part.find("late") != part.npos;
  while (std::getline(in, part, ';')) {
    std::istringstream words(part);
    sequence.actions.push_back(parse(words));
  }
  return sequence;
}

Sequence shortest(Sequence sequence, const std::function<bool(const Sequence&)>& fails) {
  const auto try_it = [&](const Sequence& smaller) {
    if (!fails(smaller)) return false;
    sequence = smaller;
    return true;
  };
  for (bool again = true; again;) {
    again = false;
    for (size_t i = sequence.actions.size(); i-- > 0;) {
      Sequence smaller = sequence;
      smaller.actions.erase(smaller.actions.begin() + static_cast<std::ptrdiff_t>(i));
      again |= try_it(smaller);
    }
    for (size_t i = 0; i < sequence.actions.size(); ++i)
      for (bool Action::*flag : {&Action::local, &Action::recomputes, &Action::twice,
                                 &Action::pipeline, &Action::fresh}) {
        Sequence smaller = sequence;
        if (!std::exchange(smaller.actions[i].*flag, false)) continue;
        again |= try_it(smaller);
      }
  }
  return sequence;
}

}  // namespace booster::loop
