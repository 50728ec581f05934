#include "core/nn/module.h"

#include "core/autograd/gradient_keeper.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "core/nn/module_traits.h"
#include "core/tensor/absence.h"
#include "platform/trace.h"

#include <algorithm>
#include <unordered_set>

namespace booster {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// Keeps the first of several handles to the same tensor.
class Distinct {
 public:
  bool insert(const Tensor& x) { return seen_.insert(x.body()).second; }

 private:
  std::unordered_set<const TensorBody*> seen_;
};

// Reports the running module to the observer and the thread's recorder, if there are any.
class ObservedModule {
 public:
  explicit ObservedModule(const Module& module) : module_(module), observer_(current_observer()) {
    if (observer_) [[unlikely]]
      observer_->module_begins(module);
    if (op_recorder) [[unlikely]]
      op_recorder->module_begins(module);
  }
  ~ObservedModule() {
    if (observer_ && observer_ == current_observer()) [[unlikely]]
      observer_->module_ends(module_);
    if (op_recorder) [[unlikely]]
      op_recorder->module_ends();
  }
  ObservedModule(const ObservedModule&) = delete;
  ObservedModule& operator=(const ObservedModule&) = delete;

 private:
  const Module& module_;
  OpObserver* observer_;
};

// Moves the memory of `from`, which has no other owner, to x. Advances x's version, so that cached
// copies of the old values are stale.
void adopt(const Tensor& x, const Tensor& from) {
  TensorBody& body = *x.body();
  from.body()->storage->version = x.version() + 1;
  set_memory_tag(from, body.storage->tag);
  body.storage = from.body()->storage;
  body.offset = from.body()->offset;
  body.shape = from.shape();
  body.strides = from.strides();
  body.dtype = from.dtype();
}

}  // namespace

ModuleTraits Module::traits() const { return {}; }

void convert_(const Tensor& x, DType dtype) {
  if (!is_floating(x.dtype()) || x.dtype() == dtype) return;
  clear_grad(x);
  if (kept_part(x).defined()) convert_part_(x, dtype);
  else adopt(x, untracked::cast(x, dtype));
}

void convert_(const Tensor& x, Device device) {
  if (x.device() == device) return;
  clear_grad(x);
  adopt(x, untracked::to(x, device));
}

void replace_(const Tensor& x, const Tensor& numbers) {
  check(numbers.dtype() == x.dtype() && numbers.device() == x.device(),
        "replace_: wrong dtype or device of the numbers; got {}, want {} on the same device",
        name_of(numbers.dtype()), name_of(x.dtype()));
  clear_grad(x);
  adopt(x, untracked::clone(numbers));
}

void Module::visit(const std::string& prefix, const Visitor& visitor) const {
  visitor(prefix, *this);
  for (const auto& [name, child] : children_) child->visit(joined(prefix, name), visitor);
}

Link Module::link(int i) const {
  check(i == 0, "{}: link out of range; got {} of 1", kind_, i);
  return link_of("", {this});
}

Link Module::link_of(std::string name, std::initializer_list<const Module*> modules) {
  Link link{std::move(name), {}};
  for (const Module* module : modules)
    for (const auto& [its_name, tensor] : module->state_dict()) link.tensors.push_back(tensor);
  return link;
}

Tensor Module::run_links(const Tensor& given, int first, int last) {
  const int count = link_count();
  if (first < 0 || first >= last || last > count)
    fail("{}: links out of range; got [{}, {}), want a range in [0, {})", kind_, first, last,
         count);
  const MemoryScope memory(memory_tag_);
  const kernels::TraceScope span(name_of(memory_tag_), kernels::SpanKind::op);
  const ObservedModule observed(*this);
  Tensor x = given;
  // Copies the hooks, because a running hook may add or remove some.
  const auto pre_hooks = first == 0 ? pre_hooks_ : std::vector<std::pair<int, ForwardPreHook>>();
  for (const auto& [number, hook] : pre_hooks)
    if (Tensor changed = hook(*this, x); changed.defined()) x = std::move(changed);
  Tensor y = !recomputes_ || !grad_enabled()
                 ? forward_links(x, first, last)
                 : checkpoint(links_to_run_again(first, last), {x});
  const auto hooks = last == count ? hooks_ : std::vector<std::pair<int, ForwardHook>>();
  for (const auto& [number, hook] : hooks)
    if (Tensor changed = hook(*this, x, y); changed.defined()) y = std::move(changed);
  return y;
}

// Returns the function that backward runs again: these links, even if other links ran since. It
// keeps a module that a Model owns alive. Otherwise it throws if the module was destroyed.
std::function<Tensor(const std::vector<Tensor>&)> Module::links_to_run_again(int first, int last) {
  const std::shared_ptr<Module> owned = weak_from_this().lock();
  return [this, owned, life = life_.watch(), kind = kind_, first,
          last](const std::vector<Tensor>& inputs) {
    check(owned || !life.expired(),
          "{}: backward must run a module with set_recompute again; got one that was destroyed, "
          "want it alive until then, as in a Model",
          kind);
    return forward_links(inputs[0], first, last);
  };
}

Parameters Module::parameters() const {
  Parameters all;
  Distinct distinct;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, x] : module.parameters_)
      if (distinct.insert(x)) all.push_back({joined(prefix, name), x});
  });
  return all;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> all;
  Distinct distinct;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, x] : module.buffers_)
      if (distinct.insert(x)) all.push_back({joined(prefix, name), x});
  });
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& [name, x] : parameters()) count += x.numel();
  return count;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> all;
  visit("", [&](const std::string& name, const Module& module) {
    all.emplace_back(name, const_cast<Module*>(&module));
  });
  return all;
}

void Module::train(bool training) {
  for (auto& [name, module] : named_modules()) module->training_ = training;
}

void Module::requires_grad_(bool requires_grad) {
  for (auto& [name, x] : parameters()) x.requires_grad_(requires_grad);
}

void Module::zero_grad() {
  for (const auto& parameter : parameters())
    check_not_kept("model.zero_grad", parameter.tensor, "zero_grad()");
  for (const auto& [name, x] : parameters()) clear_grad(x);
}

void Module::apply(const std::function<void(Module&)>& fn) {
  for (auto& [name, child] : children_) child->apply(fn);
  fn(*this);
}

void Module::to(DType dtype) {
  for (auto& [name, module] : named_modules()) module->convert_own(dtype);
}

void Module::convert_own(DType dtype) {
  check(is_floating(dtype), "to: parameters must be floating; got {}, want f32, f64, f16 or bf16",
        name_of(dtype));
  for (const auto& [name, x] : parameters_) convert_(x, dtype);
  for (const auto& [name, x] : buffers_) convert_(x, dtype);
}

void Module::to(Device device) {
  for (auto& [name, x] : state_dict()) convert_(x, device);
}

int Module::register_forward_pre_hook(ForwardPreHook hook) {
  pre_hooks_.emplace_back(next_hook_, std::move(hook));
  return next_hook_++;
}

int Module::register_forward_hook(ForwardHook hook) {
  hooks_.emplace_back(next_hook_, std::move(hook));
  return next_hook_++;
}

void Module::remove_hook(int number) {
  const auto is_it = [number](const auto& hook) { return hook.first == number; };
  check(std::erase_if(pre_hooks_, is_it) + std::erase_if(hooks_, is_it) > 0,
        "remove_hook: no such hook on this {}; got {}", kind_, number);
}

void Module::check_name(const std::string& name) const {
  check(!name.empty() && name.find('.') == std::string::npos,
        "{}: wrong name of a part; got \"{}\", want letters without dots", kind_, name);
  const auto is_it = [&](const auto& entry) {
    const auto& [taken, part] = entry;
    return taken == name;
  };
  check(std::none_of(parameters_.begin(), parameters_.end(), is_it) &&
            std::none_of(buffers_.begin(), buffers_.end(), is_it) &&
            std::none_of(children_.begin(), children_.end(), is_it),
        "{}: two parts have the same name; got {} again", kind_, name);
}

Tensor Module::add_parameter(const std::string& name, Tensor value, Role role) {
  check_name(name);
  if (!value.defined()) return value;
  value.requires_grad_();
  set_memory_tag(value, MemoryTag::parameters);
  parameters_.push_back({name, value});
  if (role != Role::other) roles_.push_back({{name, value}, role});
  return value;
}

Tensor Module::add_buffer(const std::string& name, Tensor value, Role role) {
  check_name(name);
  if (!value.defined()) return value;
  set_memory_tag(value, MemoryTag::parameters);
  buffers_.push_back({name, value});
  if (role != Role::other) roles_.push_back({{name, value}, role});
  return value;
}

std::vector<NamedTensor> Module::own(Role role) const {
  std::vector<NamedTensor> tensors;
  for (const auto& [tensor, its_role] : roles_)
    if (its_role == role) tensors.push_back(tensor);
  return tensors;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> child) {
  check(child != nullptr, "{}: part {} is empty", kind_, name);
  check_name(name);
  children_.emplace_back(name, std::move(child));
}

}  // namespace booster
