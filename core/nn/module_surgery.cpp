// Choosing parameters by name, and putting modules in the place of others.
#include "core/nn/module_surgery.h"

#include "core/autograd/gradient_keeper.h"
#include "platform/name_pattern.h"

#include <algorithm>

namespace booster {
namespace {

// Modules that run on this thread, from the outermost one.
thread_local int running_modules = 0;
// Stand-ins whose own links run on this thread.
thread_local std::vector<const Module*> running_stand_ins;

// Returns true if the pattern matches a parameter, or a module that holds it.
bool stands_for(const std::string& pattern, const std::string& parameter) {
  return matches_name(pattern, parameter) || matches_name(pattern + ".*", parameter);
}

// `names` may be of parts alone; modules that hold them count too.
std::string did_you_mean(const std::string& pattern, std::vector<std::string> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (const size_t dot = names[i].rfind('.'); dot != std::string::npos)
      names.push_back(names[i].substr(0, dot));
  const std::string near = nearest_name(pattern, names);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

}  // namespace

Parameters Module::parameters(const std::vector<std::string>& patterns) const {
  const Parameters all = parameters();
  std::vector<std::string> names;
  for (const auto& [name, x] : all) names.push_back(name);
  const bool from_all = !patterns.empty() && patterns.front().starts_with('!');
  std::vector<bool> chosen(all.size(), from_all);
  for (const std::string& text : patterns) {
    const bool takes_out = text.starts_with('!');
    const std::string pattern = text.substr(takes_out ? 1 : 0);
    bool found = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (stands_for(pattern, names[i])) {
        chosen[i] = !takes_out;
        found = true;
      }
    check(found, "parameters: {} matches no parameter or module of a {}{}", pattern, kind_,
          did_you_mean(pattern, names));
  }
  Parameters result;
  for (size_t i = 0; i < all.size(); ++i)
    if (chosen[i]) result.push_back(all[i]);
  return result;
}

void Module::freeze(const std::vector<std::string>& patterns) {
  for (auto& [name, x] : parameters(patterns)) x.requires_grad_(false);
}

std::shared_ptr<Module> Module::Surgery::called_instead(const Module& called) {
  std::shared_ptr<Module> other = called.stand_in_.lock();
  if (!other) return other;
  const bool calls_it =
      std::ranges::find(running_stand_ins, other.get()) != running_stand_ins.end();
  return calls_it ? nullptr : other;
}

const Module& Module::Surgery::now_called(const Module& module) {
  const std::shared_ptr<Module> other = module.stand_in_.lock();
  return other ? now_called(*other) : module;
}

Module::Surgery::Running::Running(const Module& module) {
  const bool is_plain_member = running_modules > 0 && module.weak_from_this().expired();
  if (is_plain_member)
    for (const auto& [name, x] : module.parameters())
      check(!x.requires_grad(),
            "{}: a module calls it that does not own it, so it would not be trained, saved or "
            "moved; want add<{}>(...), or a Model if it is not a part",
            module.kind(), module.kind());
  ++running_modules;
}

Module::Surgery::Running::~Running() { --running_modules; }

Module::Surgery::Standing::Standing(const Module& module) : stands_in_(module.is_stand_in_) {
  if (stands_in_) running_stand_ins.push_back(&module);
}

Module::Surgery::Standing::~Standing() {
  if (stands_in_) running_stand_ins.pop_back();
}

void Module::Surgery::find(Module& module, const std::string& prefix, const std::string& pattern,
                           const std::function<Model(const Model&)>& make,
                           std::vector<Replacement>& found) {
  for (size_t i = 0; i < module.children_.size(); ++i) {
    const auto& [name, child] = module.children_[i];
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    if (!matches_name(pattern, path)) {
      find(*child, path, pattern, make, found);
      continue;
    }
    for (const auto& [parameter, x] : child->parameters())
      check_not_kept("replace_modules", x, "replace_modules before boost");
    const Model successor = make(Model(child));
    check(static_cast<bool>(successor), "replace_modules: no module for {}; want one", path);
    found.push_back({&module, i, successor});
  }
}

void Module::Surgery::replace(const Replacement& replacement) {
  auto& [parent, place, successor] = replacement;
  std::shared_ptr<Module>& child = parent->children_[place].second;
  const std::shared_ptr<Module> next = successor.shared();
  next->stand_in_.reset();  // it may have been replaced before
  if (next == child) return;
  child->stand_in_ = next;
  next->is_stand_in_ = true;
  parent->replaced_.push_back(std::exchange(child, next));
}

int64_t Module::replace_modules(const std::string& pattern,
                                const std::function<Model(const Model&)>& make) {
  std::vector<Surgery::Replacement> found;
  Surgery::find(*this, "", pattern, make, found);
  if (found.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, module] : named_modules()) names.push_back(name);
    fail("replace_modules: {} matches no part of a {}{}", pattern, kind_,
         did_you_mean(pattern, names));
  }
  for (const Surgery::Replacement& one : found) Surgery::replace(one);
  return static_cast<int64_t>(found.size());
}

}  // namespace booster
