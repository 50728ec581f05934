#include "booster/checkpoint/training/resume_rules.h"

#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace booster {

namespace {

template <class T>
void check_same(const std::string& what, const char* name, const T& saved, const T& now) {
  if (saved != now) {
    fail_data("{}: was saved with another {}; got {} now, want {} to resume", what, name, now,
              saved);
  }
}

std::string text_of(const DatasetIdentity& data) {
  const std::string classes =
      data.classes ? fmt::format(" of {} classes", data.classes) : std::string();
  const std::string count =
      data.samples ? fmt::format("{} samples", data.samples) : "an unknown number of samples";
  return fmt::format("{}{} ({}, fingerprint {:016x})", count, classes, data.kind,
                     data.fingerprint);
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Reports the members that differ or that only one map has; the caller then adopts `now`.
template <class Map>
void tell_differences(const std::string& prefix, const Map& saved, const Map& now,
                      std::vector<SettingChange>& changes) {
  const auto value = [](const Map& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? std::string("nothing") : fmt::format("{}", found->second);
  };
  Map both = now;
  both.insert(saved.begin(), saved.end());
  for (const auto& [name, any] : both)
    if (value(saved, name) != value(now, name))
      changes.push_back({prefix + name, value(saved, name), value(now, name)});
}

std::map<std::string, std::string> as_texts(const nlohmann::json& settings) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : settings.items()) texts.emplace(name, text_of(value));
  return texts;
}

// Returns the settings whose section the checkpoint knows. Others are no changes: an older version
// wrote the checkpoint.
std::map<std::string, std::string> known_to(const std::map<std::string, std::string>& saved,
                                            std::map<std::string, std::string> now) {
  const auto section = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
  std::set<std::string> sections;
  for (const auto& [name, value] : saved) sections.insert(section(name));
  std::erase_if(now, [&](const auto& one) { return !sections.contains(section(one.first)); });
  return now;
}

// Returns whether a setting changes the function that the model computes. Of the model's settings,
// dropout rates, frozen parts and start weights may change; any other makes a different function of
// the same tensors.
bool is_of_the_function(const std::string& name) {
  const bool is_told = name == "model.freeze" || name == "model.weights" ||
                       name.ends_with("_rate") || name.ends_with("_pdrop");
  return name.starts_with("model.") && !is_told;
}

void check_same_function(const std::string& what, const nlohmann::json& saved,
                         const nlohmann::json& now) {
  for (const auto& [name, value] : now.items())
    if (const auto before = saved.find(name);
        is_of_the_function(name) && before != saved.end() && !before->is_null() && !value.is_null())
      check_same(what, name.c_str(), text_of(*before), text_of(value));
}

void tell(const char* name, const auto& saved, const auto& now,
          std::vector<SettingChange>& changes) {
  if (saved != now)
    changes.push_back({name, fmt::format("{}", saved), fmt::format("{}", now)});
}

std::string of_group(size_t group, size_t groups) {
  return groups > 1 ? fmt::format(" of group {}", group) : "";
}

}  // namespace

void check_same_training(const TrainingState& saved, const TrainingState& now,
                         const std::string& what) {
  check_same(what, "precision", saved.precision, now.precision);
  for (const auto& [name, value] : saved.precision_state)
    if (!now.precision_state.contains(name)) {
      fail_data("{}: was saved with other numbers of {}; got {}, which it does not keep now", what,
                now.precision, name);
    }
  check_same(what, "optimizer", saved.optimizer.rule, now.optimizer.rule);
  check_same(what, "number of parameter groups", saved.optimizer.groups.size(),
             now.optimizer.groups.size());
  check_same(what, "lr_scheduler", saved.schedule.name, now.schedule.name);
  if (saved.data != now.data) {
    fail_data("{}: was saved with other data; got {} now, want {} to resume", what,
              text_of(now.data), text_of(saved.data));
  }
  check_same(what, "seed", saved.seed, now.seed);
  check_same(what, "shuffle", saved.shuffle, now.shuffle);
  check_same(what, "drop_last", saved.drop_last, now.drop_last);
  check_same_function(what, saved.settings, now.settings);
}

void check_same_order(const TrainingState& saved, const TrainingState& now,
                      const std::string& what) {
  check_same(what, "order of samples (sampler)", saved.order, now.order);
}

namespace {

constexpr size_t names_shown = 5;

// Reports one change for all parameters that moved between the same two groups.
void adopt_moves(OptimizerState& saved, const Optimizer& optimizer,
                 std::vector<SettingChange>& changes) {
  std::map<std::pair<int, int>, std::vector<std::string>> moves;
  for (const auto& [name, before, now] : optimizer.adopt_moved_parameters(saved))
    moves[{before, now}].push_back(name);
  for (auto& [groups, names] : moves) {
    const size_t more = names.size() - std::min(names.size(), names_shown);
    names.resize(names.size() - more);
    std::string text = fmt::format("optimizer.group of {}", fmt::join(names, ", "));
    if (more > 0) text += fmt::format(" and {} more parameters", more);
    changes.push_back({text, std::to_string(groups.first), std::to_string(groups.second)});
  }
}

// The base rates of a schedule are the optimizer's rates when the schedule was made. Reports a
// change here unless it was reported already.
void adopt_base_rates(LRSchedulerState& saved, const LRSchedulerState& now,
                      std::vector<SettingChange>& changes) {
  const size_t groups = now.given_lrs.size();
  if (saved.given_lrs.empty()) saved.given_lrs = saved.base_lrs;
  if (saved.given_lrs.size() != groups || saved.base_lrs.size() != groups) return;
  for (size_t i = 0; i < groups; ++i) {
    const double before = saved.given_lrs[i], value = now.given_lrs[i];
    if (before == value) continue;
    const bool joined_late = saved.base_lrs[i] != before && before != 0;
    saved.base_lrs[i] = joined_late ? saved.base_lrs[i] / before * value : value;
    saved.given_lrs[i] = value;
    const std::string name = "optimizer.lr" + of_group(i, groups);
    if (std::ranges::none_of(changes, [&](const auto& change) { return change.name == name; }))
      changes.push_back({name, fmt::format("{}", before), fmt::format("{}", value)});
  }
}

}  // namespace

std::vector<SettingChange> adopt_changes(TrainingState& saved, const TrainingState& now,
                                         const Optimizer& optimizer) {
  std::vector<SettingChange> changes;
  tell("plugin", saved.plugin, now.plugin, changes);
  tell("number of ranks", saved.random.size(), now.random.size(), changes);
  tell("batch_size", saved.position.batch_size, now.position.batch_size, changes);
  const size_t groups = now.optimizer.groups.size();
  adopt_moves(saved.optimizer, optimizer, changes);
  for (const auto& [group, name, before, value] : optimizer.adopt_changed_options(saved.optimizer))
    changes.push_back({"optimizer." + name + of_group(static_cast<size_t>(group), groups),
                       fmt::format("{}", before), fmt::format("{}", value)});
  adopt_base_rates(saved.schedule, now.schedule, changes);
  tell_differences("lr_scheduler.", saved.schedule.settings, now.schedule.settings, changes);
  for (const auto& [name, value] : now.first_precision_state) {
    const auto before = saved.first_precision_state.find(name);
    if (before != saved.first_precision_state.end() && before->second != value)
      saved.precision_state[name] = value;
  }
  tell("precision: numbers by rank", saved.precision_by_rank, now.precision_by_rank, changes);
  tell_differences("precision.", saved.first_precision_state, now.first_precision_state, changes);
  auto before = as_texts(saved.settings), settings = known_to(before, as_texts(now.settings));
  const auto is_of_plugin = [](const auto& one) {
    return one.first.starts_with("booster.plugin.");
  };
  if (saved.plugin != now.plugin)  // its options differ
    for (auto* of : {&before, &settings}) std::erase_if(*of, is_of_plugin);
  tell_differences("", before, settings, changes);
  return changes;
}

}  // namespace booster
