#include "booster/checkpoint/training/whole_tensors.h"

#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/safetensors/check_tensors.h"
#include "booster/checkpoint/training/rank_tensors.h"
#include "booster/training/session.h"
#include "core/autograd/functions.h"
#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"
#include "platform/json/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string_view>

namespace booster {

namespace {

// Prefix of the model's tensors that join_model rounds, which are saved with the strategy's own.
constexpr std::string_view rounded_prefix = "model.";
// A parameter's count of steps travels with its tensors: ranks may hold different parameters.
constexpr std::string_view steps_suffix = ".steps";

// The names that any rank has: in rank 0's order, then what only others have.
std::vector<std::string> names_of_ranks(const StateDict& held, const Group& group) {
  nlohmann::json mine = nlohmann::json::array();
  for (const auto& [name, tensor] : held) mine.push_back(name);
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const std::string& text : gather_text(mine.dump(), group))
    for (const std::string name : json_from(text))
      if (known.insert(name).second) names.push_back(name);
  return names;
}

void join_each(const StateDict& held, const Plugin& plugin,
               const std::function<void(const NamedTensor& whole)>& take,
               const std::function<void()>& after_each) {
  const Group group = plugin.group();
  std::map<std::string, Tensor> here;
  for (const auto& [name, tensor] : held) here.emplace(name, tensor.detach());
  for (const std::string& name : names_of_ranks(held, group)) {
    StateDict one;
    if (here.count(name)) one.push_back({name, here.at(name)});
    plugin.join(one);
    if (group.rank() == 0)
      for (const NamedTensor& whole : one) take(whole);
    one.clear();
    after_each();
  }
}

// The dtype that a tensor of the model has in a checkpoint.
DType saved_dtype_of(const Session& session, const Tensor& tensor) {
  const auto saved = session.precision->saved_dtype();
  return saved && is_floating(tensor.dtype()) ? *saved : tensor.dtype();
}

StateDict rounded_tensors(const Session& session) {
  StateDict tensors;
  for (const auto& [name, tensor] : session.model.state_dict()) {
    const DType saved = saved_dtype_of(session, tensor);
    if (promote(tensor.dtype(), saved) != saved) tensors.push_back({name, tensor.detach()});
  }
  return tensors;
}

TensorMap as_map(const StateDict& state) {
  TensorMap tensors;
  for (const auto& [name, tensor] : state) tensors.emplace(name, tensor.detach());
  return tensors;
}

TensorMap as_one(const StateDict& own, const StateDict& rounded) {
  TensorMap tensors = as_map(own);
  for (const auto& [name, tensor] : rounded)
    tensors.emplace(std::string(rounded_prefix) + name, tensor.detach());
  return tensors;
}

StateDict as_state(const TensorMap& tensors) {
  StateDict state;
  for (const auto& [name, tensor] : tensors) state.push_back({name, tensor});
  return state;
}

// Whether a name belongs to a module whose numbers are on another rank, a stage of a pipeline.
bool is_elsewhere(const StateDict& model, const std::string& name) {
  return std::ranges::any_of(model, [&](const NamedTensor& held) {
    const size_t dot = held.name.rfind('.');
    return held.tensor.numel() == 0 && dot != held.name.npos &&
           name.starts_with(held.name.substr(0, dot + 1));
  });
}

// A strategy keeps for a layer what it keeps where the layer is.
void drop_elsewhere(const Session& session, StateDict& own) {
  const TensorMap here = as_map(session.precision->state_tensors());
  const StateDict model = session.model.state_dict();
  std::erase_if(own, [&](const NamedTensor& held) {
    return here.count(held.name) == 0 && is_elsewhere(model, held.name);
  });
}

// The strategy's own tensors and the rounded ones: what this rank holds.
TensorMap held_precision(const Session& session) {
  return as_one(session.precision->state_tensors(), rounded_tensors(session));
}

StateDict as_tensors(const std::map<std::string, int64_t>& steps) {
  StateDict tensors;
  for (const auto& [name, count] : steps)
    tensors.push_back({name + std::string(steps_suffix), from_vector(std::vector{count}, {1})});
  return tensors;
}

bool is_count(const std::string& name) { return name.ends_with(steps_suffix); }

// The names under which a plugin knows an optimizer's tensors. Parameters of several optimizers may
// have equal names, so these are the models' names then: "1.fc.weight.exp_avg".
class PluginNames {
 public:
  explicit PluginNames(const Session& session) {
    if (session.iteration->all.size() == 1) return;
    std::map<const TensorBody*, std::string> of_models;
    for (const auto& [name, tensor] : session.model.parameters())
      of_models.emplace(tensor.body(), name);
    for (const auto& [name, tensor] : session.optimizer.parameters())
      if (const auto known = of_models.find(tensor.body()); known != of_models.end()) {
        to_plugin_.emplace(name, known->second);
        from_plugin_.emplace(known->second, name);
      }
  }
  std::string to_plugin(const std::string& name) const { return renamed(name, to_plugin_); }
  std::string from_plugin(const std::string& name) const { return renamed(name, from_plugin_); }

 private:
  static std::string renamed(const std::string& name,
                             const std::map<std::string, std::string>& names) {
    for (std::string part = name;; part.resize(part.rfind('.'))) {
      if (const auto known = names.find(part); known != names.end())
        return known->second + name.substr(part.size());
      if (part.find('.') == part.npos) return name;
    }
  }
  std::map<std::string, std::string> to_plugin_, from_plugin_;
};

// Returns the tensors of this rank, of whole ones under an optimizer's names.
StateDict split_under_own_names(const Session& session, StateDict whole) {
  const PluginNames names(session);
  for (NamedTensor& one : whole) one.name = names.to_plugin(one.name);
  session.plugin->split(whole);
  for (NamedTensor& one : whole) one.name = names.from_plugin(one.name);
  return whole;
}

void read_count(const NamedTensor& count, std::map<std::string, int64_t>& steps) {
  steps[count.name.substr(0, count.name.size() - steps_suffix.size())] =
      count.tensor.to_vector<int64_t>()[0];
}

}  // namespace

// Joined first and cast then: before, a plugin may hold no numbers of it.
void join_weights(const Session& session, const StateDict& held,
                  const std::function<void(const std::string& name, const Tensor& whole)>& take,
                  const std::function<void()>& after_each) {
  const auto take_cast = [&](const NamedTensor& whole) {
    take(whole.name, untracked::cast(whole.tensor, saved_dtype_of(session, whole.tensor)));
  };
  join_each(held, *session.plugin, take_cast, after_each);
}

void join_model(const Session& session, const WholeTensors& out) {
  const auto take = [&](const std::string& name, const Tensor& whole) {
    out.take(TensorKind::model, name, whole);
  };
  join_weights(session, session.model.state_dict(), take, out.after_each);
}

std::map<std::string, int64_t> join_optimizer(const Session& session, const WholeTensors& out) {
  const OptimizerState state = session.optimizer.state_dict();
  const PluginNames names(session);
  std::map<std::string, int64_t> steps;
  const auto take = [&](const NamedTensor& joined) {
    const NamedTensor whole = {names.from_plugin(joined.name), joined.tensor};
    if (is_count(whole.name)) read_count(whole, steps);
    else out.take(TensorKind::optimizer, whole.name, whole.tensor);
  };
  StateDict held = as_state(state.tensors);
  for (NamedTensor& count : as_tensors(state.steps)) held.push_back(std::move(count));
  for (NamedTensor& one : held) one.name = names.to_plugin(one.name);
  join_each(held, *session.plugin, take, out.after_each);
  return steps;
}

void join_precision(const Session& session, const WholeTensors& out) {
  const auto take = [&](const NamedTensor& whole) {
    out.take(TensorKind::precision, whole.name, whole.tensor);
  };
  const StateDict own = session.precision->state_tensors();
  if (session.precision->state_differs_by_rank())
    for (const NamedTensor& whole : tensors_of_ranks(own, session.plugin->group())) take(whole);
  else
    join_each(own, *session.plugin, take, out.after_each);
  const auto take_rounded = [&](const NamedTensor& whole) {
    take({std::string(rounded_prefix) + whole.name, whole.tensor});
  };
  join_each(rounded_tensors(session), *session.plugin, take_rounded, out.after_each);
}

TensorMap split_model(const Session& session, const TensorMap& whole) {
  StateDict tensors = as_state(whole);
  session.plugin->split(tensors);
  return as_map(tensors);
}

TensorMap split_optimizer(const Session& session, const TensorMap& whole) {
  for (const auto& [name, tensor] : whole)
    if (is_count(name)) fail_data("optimizer: no such tensor; got {}", name);
  return as_map(split_under_own_names(session, as_state(whole)));
}

std::map<std::string, int64_t> split_steps(const Session& session,
                                           const std::map<std::string, int64_t>& steps) {
  std::map<std::string, int64_t> own;
  for (const NamedTensor& count : split_under_own_names(session, as_tensors(steps)))
    read_count(count, own);
  return own;
}

TensorMap split_precision(const Session& session, const TensorMap& whole) {
  const bool rounds = session.precision->saved_dtype().has_value();
  StateDict own, rounded;
  for (const auto& [name, tensor] : whole)
    if (rounds && name.starts_with(rounded_prefix))
      rounded.push_back({name.substr(rounded_prefix.size()), tensor});
    else own.push_back({name, tensor});
  const bool by_rank = session.precision->state_differs_by_rank();
  own = tensors_of_rank(own, by_rank ? session.plugin->group().rank() : 0);
  if (!by_rank) session.plugin->split(own);
  drop_elsewhere(session, own);
  session.plugin->split(rounded);
  return as_one(own, rounded);
}

void check_held(const Session& session, const TensorMap& model, const TensorMap& precision,
                const std::string& what) {
  TensorForms wanted = forms_of(as_map(session.model.state_dict()));
  for (const auto& [name, tensor] : session.model.state_dict())
    wanted.at(name).dtype = saved_dtype_of(session, tensor);
  check_tensors(wanted, model, what);
  check_tensors(forms_of(held_precision(session)), precision, what + ": precision");
}

void settle(const Session& session) {
  StateDict nothing;
  session.plugin->join(nothing);
}

void assign_held(const Session& session, const TensorMap& model, const TensorMap& precision) {
  const NoGradGuard no_grad;
  for (auto& [name, tensor] : session.model.state_dict())
    Tensor(tensor.detach()).copy_(model.at(name));
  for (auto& [name, tensor] : held_precision(session)) Tensor(tensor).copy_(precision.at(name));
}

}  // namespace booster
