#include "core/nn/module.h"

#include "core/autograd/gradient_keeper.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "core/nn/module_surgery.h"
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

namespace {

std::vector<std::string> names_of(const Tensors& x) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : x) names.push_back(name);
  return names;
}

Tensors with_names(const std::vector<std::string>& names, const std::vector<Tensor>& tensors) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < names.size(); ++i) named.push_back({names[i], tensors[i]});
  return Tensors(std::move(named));
}

// The module whose default function on Tensors is calling its function on one Tensor. If the
// default of that one is reached, the class overrides neither.
thread_local const Module* calls_forward = nullptr;
thread_local const Module* calls_forward_links = nullptr;

class CallsOther {
 public:
  CallsOther(const Module*& place, const Module* module)
      : place_(place), before_(std::exchange(place, module)) {}
  ~CallsOther() { place_ = before_; }
  CallsOther(const CallsOther&) = delete;
  CallsOther& operator=(const CallsOther&) = delete;

 private:
  const Module*& place_;
  const Module* before_;
};

}  // namespace

Tensor Module::only_input(const Tensors& x) const {
  if (x.size() != 1)
    fail("{}: takes one tensor; got {}", kind_,
         x.empty() ? "none" : fmt::format("{} ({})", x.size(), x.names()));
  return x.only();
}

Tensor Module::only_output(const Tensors& y) const {
  if (y.size() != 1)
    fail("{}: called with one tensor, which gives one; got {}, want a call with Tensors", kind_,
         y.empty() ? "none" : fmt::format("{} ({})", y.size(), y.names()));
  return y.only();
}

Tensor Module::forward(const Tensor& x) {
  check(calls_forward != this,
        "{}: has no forward; want an override of forward, or of forward_named for several tensors",
        kind_);
  return only_output(forward_named(x));
}

Tensors Module::forward_named(const Tensors& x) {
  const Tensor only = only_input(x);
  const CallsOther scope(calls_forward, this);
  return forward(only);
}

Tensor Module::forward_links(const Tensor& x, int first, int last) {
  if (link_count() == 1) return forward(x);
  if (calls_forward_links == this)
    fail(
        "{}: has {} links, but no forward_links; want an override of it, or of "
        "forward_named_links for several tensors",
        kind_, link_count());
  return only_output(forward_named_links(x, first, last));
}

Tensors Module::forward_named_links(const Tensors& x, int first, int last) {
  if (link_count() == 1) return forward_named(x);
  const Tensor only = only_input(x);
  const CallsOther scope(calls_forward_links, this);
  return forward_links(only, first, last);
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
    for (const auto& [its_name, tensor] : Surgery::now_called(*module).state_dict())
      link.tensors.push_back(tensor);
  return link;
}

Tensor Module::run_links(const Tensor& x, int first, int last) {
  return run_with_hooks(x, first, last);
}
Tensors Module::run_links(const Tensors& x, int first, int last) {
  return run_with_hooks(x, first, last);
}

// T is Tensor or Tensors. One tensor stays a Tensor, which needs no memory of its own.
template <class T>
T Module::run_with_hooks(const T& given, int first, int last) {
  const int count = link_count();
  if (first < 0 || first >= last || last > count)
    fail("{}: links out of range; got [{}, {}), want a range in [0, {})", kind_, first, last,
         count);
  if (const auto other = Surgery::called_instead(*this)) {
    check(last - first == count, "{}: was replaced as a whole; got a call of links [{}, {}) of {}",
          kind_, first, last, count);
    return (*other)(given);
  }
  const Surgery::Running running(*this);
  const MemoryScope memory(memory_tag_);
  const kernels::TraceScope span(name_of(memory_tag_), kernels::SpanKind::op);
  const ObservedModule observed(*this);
  T changed_input;
  const T* x = &given;
  // Copies the hooks, because a running hook may add or remove some.
  const auto pre_hooks = first == 0 ? pre_hooks_ : std::vector<std::pair<int, ForwardPreHook>>();
  for (const auto& [number, hook] : pre_hooks)
    if (const Tensors changed = hook(*this, *x); !changed.empty()) {
      changed_input = changed;
      x = &changed_input;
    }
  T y;
  if (recomputes_ && grad_enabled()) y = recomputed(*x, first, last);
  else y = Surgery::links(*this, *x, first, last);
  const auto hooks = last == count ? hooks_ : std::vector<std::pair<int, ForwardHook>>();
  for (const auto& [number, hook] : hooks)
    if (const Tensors changed = hook(*this, *x, y); !changed.empty()) y = changed;
  return y;
}

// Backward runs these links again, even if other links ran since.
Tensor Module::recomputed(const Tensor& x, int first, int last) {
  return checkpoint(
      [this, check_life = check_of_life(), first, last](const std::vector<Tensor>& inputs) {
        check_life();
        return Surgery::links(*this, inputs[0], first, last);
      },
      {x});
}

Tensors Module::recomputed(const Tensors& x, int first, int last) {
  const auto names = std::make_shared<std::vector<std::string>>();  // of the outputs
  const auto run = [this, check_life = check_of_life(), inputs = names_of(x), names, first,
                    last](const std::vector<Tensor>& again) {
    check_life();
    const Tensors y = Surgery::links(*this, with_names(inputs, again), first, last);
    *names = names_of(y);
    return y.all();
  };
  const std::vector<Tensor> y = checkpoint(run, x.all());
  return with_names(*names, y);
}

// Returns a function that backward calls before it runs links again. It keeps a module that a Model
// owns alive. Otherwise it throws if the module was destroyed.
std::function<void()> Module::check_of_life() {
  const std::shared_ptr<Module> owned = weak_from_this().lock();
  return [owned, life = std::weak_ptr(life_.token), kind = kind_] {
    check(owned || !life.expired(),
          "{}: backward must run a module with set_recompute again; got one that was destroyed, "
          "want it alive until then, as in a Model",
          kind);
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
  for (const auto* buffers : {&buffers_, &unsaved_})
    for (const auto& [name, x] : *buffers) convert_(x, dtype);
}

void Module::to(Device device) {
  visit("", [&](const std::string&, const Module& module) {
    for (const auto* own : {&module.parameters_, &module.buffers_, &module.unsaved_})
      for (const auto& [name, x] : *own) convert_(x, device);
  });
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
            std::none_of(unsaved_.begin(), unsaved_.end(), is_it) &&
            std::none_of(children_.begin(), children_.end(), is_it),
        "{}: two parts have the same name; got {} again", kind_, name);
}

Tensor Module::add_parameter(const std::string& name, Tensor value, Role role) {
  check_name(name);
  if (!value.defined()) return value;
  if (value.is_leaf() && !value.is_contiguous()) value = untracked::contiguous(value);
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
  (role == Role::unsaved ? unsaved_ : buffers_).push_back({name, value});
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
