// Saving, loading and describing modules.
#include "core/autograd/tape.h"
#include "core/nn/module.h"

#include <unordered_map>

namespace booster {
namespace {

constexpr size_t most_listed = 5;

// Returns "a, b and 3 more"
std::string shortened(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < most_listed; ++i) text += (i ? ", " : "") + items[i];
  if (items.size() > most_listed) text += fmt::format(" and {} more", items.size() - most_listed);
  return text;
}

struct Differences : NameDifferences {
  std::vector<std::string> shapes;

  // Returns "" if the state may be loaded.
  std::string to_string(bool strict) const {
    std::string text;
    const auto list = [&](const char* what, const std::vector<std::string>& items) {
      if (!items.empty())
        text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", items.size(), what,
                            shortened(items));
    };
    if (strict) list("missing", missing);
    if (strict) list("unexpected", unexpected);
    list("of another shape", shapes);
    return text;
  }
};

using ByName = std::unordered_map<std::string, Tensor>;

ByName by_name(const StateDict& tensors) {
  ByName map;
  for (const auto& [name, x] : tensors) {
    check(x.defined(), "load_state_dict: {} is undefined", name);
    check(map.emplace(name, x).second, "load_state_dict: two tensors have the name {}", name);
  }
  return map;
}

Differences compare(const StateDict& own, const StateDict& given,
                    const std::set<std::string>& optional) {
  Differences found;
  const ByName have = by_name(own), got = by_name(given);
  for (const auto& [name, x] : own) {
    const auto entry = got.find(name);
    if (entry == got.end()) {
      if (!optional.contains(name)) found.missing.push_back(name);
    } else if (entry->second.shape() != x.shape()) {
      found.shapes.push_back(
          fmt::format("{} (got {}, want {})", name, entry->second.shape(), x.shape()));
    }
  }
  for (const auto& [name, x] : given)
    if (!have.count(name)) found.unexpected.push_back(name);
  return found;
}

std::string indented(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

StateDict state_of(const std::map<std::string, Tensor>& tensors) {
  StateDict state;
  for (const auto& [name, x] : tensors) state.push_back({name, x});
  return state;
}

StateDict Module::state_dict() const {
  StateDict all;
  visit("", [&](const std::string& prefix, const Module& module) {
    const std::string dot = prefix.empty() ? "" : ".";
    for (const auto& [name, x] : module.parameters_) all.push_back({prefix + dot + name, x});
    for (const auto& [name, x] : module.buffers_) all.push_back({prefix + dot + name, x});
  });
  return all;
}

std::set<std::string> Module::optional_names() const {
  std::set<std::string> names;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, x] : module.own(Role::batch_count))
      names.insert(prefix.empty() ? name : prefix + "." + name);
  });
  return names;
}

NameDifferences Module::load_state_dict(const StateDict& state, bool strict) {
  const StateDict own = state_dict();
  const Differences found = compare(own, state, optional_names());
  const std::string text = found.to_string(strict);
  check(text.empty(), "load_state_dict: state does not match this {}; {}", kind_, text);
  const NoGradGuard no_grad;
  const ByName got = by_name(state);
  for (auto& [name, x] : own)
    if (const auto entry = got.find(name); entry != got.end()) Tensor(x).copy_(entry->second);
  return found;
}

std::string Module::to_string() const {
  std::string text = kind_ + "(" + options();
  if (children_.empty()) return text + ")";
  for (const auto& [name, child] : children_)
    text += fmt::format("\n  ({}): {}", name, indented(child->to_string()));
  return text + "\n)";
}

}  // namespace booster
