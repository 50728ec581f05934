#include "plugins/parameters/wrapped_modules.h"

#include "platform/error.h"

#include <algorithm>
#include <functional>

#include <fnmatch.h>

namespace booster {

namespace {

using Named = std::pair<std::string, Module*>;

bool lies_below(const std::string& name, const std::string& module) {
  return name.starts_with(module) && name.size() > module.size() && name[module.size()] == '.';
}

// Returns the outermost chosen modules, never the model itself.
std::vector<Module*> outermost(const std::vector<Named>& modules,
                               const std::function<bool(const Named&)>& is_chosen) {
  std::vector<Module*> chosen;
  std::string last;
  for (const Named& module : modules) {  // sorted: a parent precedes its children
    if (module.first.empty() || (!chosen.empty() && lies_below(module.first, last))) continue;
    if (!is_chosen(module) || module.second->parameter_count() == 0) continue;
    last = module.first;
    chosen.push_back(module.second);
  }
  return chosen;
}

bool is_numbered(const std::string& name) {
  const std::string own = name.substr(name.rfind('.') + 1);
  return own.find_first_not_of("0123456789") == own.npos;
}

}  // namespace

std::vector<Module*> modules_to_wrap(Module& model, const std::vector<std::string>& patterns,
                                     const char* option) {
  const std::vector<Named> modules = model.named_modules();
  std::vector<std::string> names;
  for (const auto& [name, module] : modules)
    if (!name.empty()) names.push_back(name);
  const auto matches = [](const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns)
    check(std::ranges::any_of(names, [&](const auto& name) { return matches(pattern, name); }),
          "{}: matches no module; got {}{}", option, pattern, legal_names(pattern, names));
  if (!patterns.empty())
    return outermost(modules, [&](const Named& module) {
      return std::ranges::any_of(patterns,
                                 [&](const auto& text) { return matches(text, module.first); });
    });
  // Models that were boosted together do not count as elements of a list.
  const bool several = model.traits().holds_models;
  const auto is_block = [&](const Named& module) {
    return is_numbered(module.first) &&
           !(several && module.first.find('.') == module.first.npos);
  };
  std::vector<Module*> blocks = outermost(modules, is_block);
  if (!blocks.empty()) return blocks;
  return outermost(modules, [](const Named&) { return true; });
}

}  // namespace booster
