// Module: a function with parameters, made of smaller ones. Model: the handle that programs hold.
//
//   class Classifier : public Module {
//    public:
//     Classifier() : Module("Classifier") {}
//     Linear& hidden = add<Linear>("hidden", 784, 256);
//     Linear& head = add<Linear>("head", 256, 10);
//
//    private:
//     Tensor forward(const Tensor& x) override { return head(relu(hidden(x))); }
//   };
//   Model model = Classifier();
//
// A module with several inputs or outputs overrides forward_named instead, on named tensors
// (core/tensor/tensors.h): return {{"y", head(hidden(x["tokens"]) * x["mask"])}};
// docs/guides/own-model-and-data.md has examples.
//
// A module owns its submodules, so references to them stay valid for its lifetime, even when it
// moves into a Model. Copying a Model copies the handle, so both share the parameters. A module is
// for one thread at a time, except in a Predictor (booster/booster.h).
#pragma once

#include "core/tensor/memory/memory_report.h"
#include "core/tensor/tensors.h"

#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

class Module;
class Model;
struct ModuleTraits;

// A model's saved tensors.
using StateDict = std::vector<NamedTensor>;
// Names in which a loaded state differs from the model's: the model's that the state lacks, and the
// state's that the model lacks.
struct NameDifferences {
  std::vector<std::string> missing = {}, unexpected = {};
};
// Makes a StateDict from a map by name, as load_safetensors returns.
StateDict state_of(const std::map<std::string, Tensor>& tensors);

// A piece of a model that runs as a chain of pieces. Each takes the result of the previous one: one
// tensor, or named ones. A pipeline may cut between pieces. See Module::link_count().
struct Link {
  std::string name;             // "blocks.3"; "" for a module that is one link
  std::vector<Tensor> tensors;  // parameters and buffers that it uses; other links may use them too
};

// Purpose of a parameter or buffer. Precision strategies treat some layers specially and recognise
// them by role, for any class of module. A module that replaces a layer (for example, by a part of
// it on each rank) gives its tensors the same roles.
enum class Role : uint8_t {
  other,
  linear_weight,  // (out, in), multiplied by input rows: may run in 8-bit matrix units
  layer_norm,     // scale and shift of a normalisation over features
  batch_norm,     // scale, shift and statistics of a normalisation over the batch
  batch_count,    // number of batches in those statistics; older files lack it
  unsaved,        // a buffer that the constructor makes anew: no file or checkpoint holds it
};

// Called before forward; may return another input, or an undefined tensor or no tensors to keep it.
// A hook may take and return Tensor if the module has one input and one output.
using ForwardPreHook = std::function<Tensors(Module& module, const Tensors& x)>;
// Called after forward; may return another output, or keep it in the same way.
using ForwardHook = std::function<Tensors(Module& module, const Tensors& x, const Tensors& y)>;

class Module : public std::enable_shared_from_this<Module> {
 public:
  // Makes a module. `kind` is its name in messages and descriptions.
  explicit Module(std::string kind) : kind_(std::move(kind)), memory_tag_(activation_tag(kind_)) {}
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Runs the module with its hooks. Throws if it takes or gives several tensors but got one, or the
  // reverse.
  Tensor operator()(const Tensor& x) { return run_links(x, 0, link_count()); }
  Tensors operator()(const Tensors& x) { return run_links(x, 0, link_count()); }

  // --- links: a module that can be cut overrides these two and forward_links(); its forward() is
  // then forward_links(x, 0, link_count()). With several tensors it overrides forward_named_links()
  // alone. All others are one link. See docs/parallelism.md.
  // Returns at least 1, and always the same number.
  virtual int link_count() const { return 1; }
  // Returns a link. Throws if there is no such link.
  virtual Link link(int i) const;
  // Runs links [first, last) on the result of link first - 1. The pre-hooks run if the range begins
  // with the first link, the hooks if it ends with the last. Recomputation (set_recompute) covers
  // the links of this call. Throws for a range that is empty or outside.
  Tensor run_links(const Tensor& x, int first, int last);
  Tensors run_links(const Tensors& x, int first, int last);
  // Return a legal input of `rows` rows with any values, for measuring cost; undefined if the
  // module offers none.
  virtual Tensor example_input(int64_t /*rows*/) const { return {}; }
  virtual Tensors example_inputs(int64_t rows) const { return example_input(rows); }

  // Returns the model's traits for plugins, the planner and files of weights
  // (core/nn/module_traits.h). A class without an override has none.
  virtual ModuleTraits traits() const;
  // Return the name and the options ("192, 576, bias=true") in messages and descriptions. The
  // library makes no decision by them.
  const std::string& kind() const { return kind_; }
  virtual std::string options() const { return ""; }
  // Returns a tree of kinds and options, as PyTorch prints it.
  std::string to_string() const;

  // --- contents; a tensor with two uses appears once, under its first name
  Parameters parameters() const;
  // Returns the parameters whose name, or whose module's name, matches a pattern (* and ?). "!"
  // excludes: {"*.norm*", "!*.bias"}; {"!head"} is all but the head.
  // Throws for a pattern that matches nothing, with the nearest name.
  Parameters parameters(const std::vector<std::string>& patterns) const;
  std::vector<NamedTensor> buffers() const;  // without unsaved ones
  // Returns this module (name "") and all below it, each after its parent.
  std::vector<std::pair<std::string, Module*>> named_modules();
  int64_t parameter_count() const;
  // Returns the number of attention heads in this module; 0 for other modules. Ranks may share
  // heads but not cut them.
  virtual int64_t attention_heads() const { return 0; }
  // Returns this module's own parameters and buffers with this role, under their own names
  // ("weight").
  std::vector<NamedTensor> own(Role role) const;

  // Returns parameters and buffers under all of their names, module by module. They share memory
  // with the model.
  StateDict state_dict() const;
  // Returns the names that a loaded state may lack, as in PyTorch: num_batches_tracked, which files
  // from before PyTorch 0.4.1 lack. Such a tensor then keeps its value.
  std::set<std::string> optional_names() const;
  // Copies values in and converts dtypes. On failure it leaves the module unchanged and throws an
  // error that lists missing names, unexpected names and wrong shapes. Without `strict`, names may
  // differ; those that do are returned.
  NameDifferences load_state_dict(const StateDict& state, bool strict = true);
  // The same from a map. A template, so that braces mean a StateDict.
  template <class Map>
  requires std::is_same_v<Map, std::map<std::string, Tensor>> NameDifferences
  load_state_dict(const Map& state, bool strict = true) {
    return load_state_dict(state_of(state), strict);
  }

  // --- modes
  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  // Freezes (false) or unfreezes all parameters.
  void requires_grad_(bool requires_grad = true);
  void freeze() { requires_grad_(false); }
  // Freezes the parameters that the patterns choose: see parameters().
  void freeze(const std::vector<std::string>& patterns);
  // Puts make(part) in the place of each part whose name matches (* and ?), and under its name. The
  // new module may hold the part and call it. Calls of the part from elsewhere, as by a member
  // `Linear& fc`, reach the new module. Returns the number. Throws if there is none, or if the
  // model is boosted.
  //   model->replace_modules("*.c_attn", [](const Model& part) -> Model { return Lora(part, 8); });
  int64_t replace_modules(const std::string& pattern,
                          const std::function<Model(const Model& part)>& make);
  // Throws if the model was boosted: its optimizer's zero_grad() also resets other state.
  void zero_grad();
  // Sets recomputation: forward keeps no activations, and backward runs forward again.
  void set_recompute(bool recompute) { recomputes_ = recompute; }
  // Calls fn for every module, submodules before their parents (initialisers depend on this order).
  void apply(const std::function<void(Module&)>& fn);
  // Converts floating parameters and buffers in place: other handles, such as an optimizer's, see
  // the new dtype or device. Drops gradients.
  void to(DType dtype);
  void to(Device device);
  // Converts only this module's own parameters and buffers, not its submodules.
  void convert_own(DType dtype);

  // --- hooks; the returned number removes one
  int register_forward_pre_hook(ForwardPreHook hook);
  int register_forward_hook(ForwardHook hook);
  void remove_hook(int number);
  // Returns true if a call does more than forward(), such as hooks or recomputation. A fused
  // function must not replace such a call.
  bool must_be_called() const {
    return recomputes_ || !pre_hooks_.empty() || !hooks_.empty() || !stand_in_.expired();
  }

 protected:
  // A module overrides one of the two. Each default calls the other.
  virtual Tensor forward(const Tensor& x);
  virtual Tensors forward_named(const Tensors& x);
  // Run links [first, last), not empty, of a module that can be cut. It overrides one of the two,
  // as above. By default a module of one link runs forward.
  virtual Tensor forward_links(const Tensor& x, int first, int last);
  virtual Tensors forward_named_links(const Tensors& x, int first, int last);

  // Registers a leaf that requires gradients; nothing for an undefined tensor.
  Tensor add_parameter(const std::string& name, Tensor value, Role role = Role::other);
  // Registers a tensor that is saved but not trained.
  Tensor add_buffer(const std::string& name, Tensor value, Role role = Role::other);
  // Returns a link that uses the tensors of these modules.
  static Link link_of(std::string name, std::initializer_list<const Module*> modules);
  template <class M, class... Args>
  M& add(const std::string& name, Args&&... args) {
    return add_existing(name, made<M>(std::forward<Args>(args)...));
  }
  // Does the same for modules with named options, in braces after at most three other arguments:
  // add<Conv2d>("conv", 3, 16, 3, {.stride = 2}).
  template <class M>
  M& add(const std::string& name, typename M::Options options) {
    return add_existing(name, made<M>(std::move(options)));
  }
  template <class M, class A>
  M& add(const std::string& name, A&& a, typename M::Options options) {
    return add_existing(name, made<M>(std::forward<A>(a), std::move(options)));
  }
  template <class M, class A, class B>
  M& add(const std::string& name, A&& a, B&& b, typename M::Options options) {
    return add_existing(name, made<M>(std::forward<A>(a), std::forward<B>(b), std::move(options)));
  }
  template <class M, class A, class B, class C>
  M& add(const std::string& name, A&& a, B&& b, C&& c, typename M::Options options) {
    return add_existing(name, made<M>(std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                                      std::move(options)));
  }
  template <class M>
  M& add_existing(const std::string& name, std::shared_ptr<M> module) {
    M& added = *module;
    add_child(name, std::move(module));
    return added;
  }

  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const {
    return children_;
  }

 private:
  template <class M, class... Args>
  static std::shared_ptr<M> made(Args&&... args) {
    constexpr bool fits = std::constructible_from<M, Args...>;
    static_assert(fits, "add: the module has no constructor that takes these arguments");
    if constexpr (fits)
      return std::make_shared<M>(std::forward<Args>(args)...);
    else
      return nullptr;
  }
  using Visitor = std::function<void(const std::string& name, const Module& module)>;
  // Calls visitor for this module and all below it, each after its parent.
  void visit(const std::string& prefix, const Visitor& visitor) const;
  void check_name(const std::string& name) const;
  void add_child(const std::string& name, std::shared_ptr<Module> child);
  struct Surgery;  // module_surgery.h
  template <class T>
  T run_with_hooks(const T& x, int first, int last);
  Tensor recomputed(const Tensor& x, int first, int last);
  Tensors recomputed(const Tensors& x, int first, int last);
  std::function<void()> check_of_life();
  Tensor only_input(const Tensors& x) const;
  Tensor only_output(const Tensors& y) const;

  // Lifetime of the module at its address: ends when it is destroyed or moved from.
  struct Life {
    Life() = default;
    Life(Life&& other) { other.token.reset(); }
    std::shared_ptr<char> token = std::make_shared<char>();
  };

  Life life_;
  std::string kind_;
  MemoryTag memory_tag_;  // tag of forward's allocations
  Parameters parameters_;
  std::vector<NamedTensor> buffers_, unsaved_;
  std::vector<std::pair<NamedTensor, Role>> roles_;  // only tensors that have one
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  std::vector<std::shared_ptr<Module>> replaced_;  // former children, which references still name
  std::weak_ptr<Module> stand_in_;                 // called in place of this module
  bool is_stand_in_ = false;
  std::vector<std::pair<int, ForwardPreHook>> pre_hooks_;
  std::vector<std::pair<int, ForwardHook>> hooks_;
  int next_hook_ = 0;
  bool training_ = true;
  bool recomputes_ = false;
};

// Changes the dtype (device) of a floating tensor in place for all handles, and drops its gradient.
void convert_(const Tensor& x, DType dtype);
void convert_(const Tensor& x, Device device);
// Gives x a copy of `numbers`, of x's dtype and device and of any shape, for all handles. Drops x's
// gradient. An optimizer that has x must not hold state for it yet.
void replace_(const Tensor& x, const Tensor& numbers);

// A shared handle to a module of any kind.
class Model {
 public:
  Model() = default;
  template <class M>
  requires(std::is_base_of_v<Module, M>) Model(std::shared_ptr<M> module)
      : module_(std::move(module)) {}
  // Takes ownership of a temporary module: `Model model = Classifier();`
  template <class M>
  requires(std::is_base_of_v<Module, M> && !std::is_reference_v<M>) Model(M&& module)
      : module_(std::make_shared<M>(std::move(module))) {}

  // Refuses a named module, which would have two owners.
  template <class M>
  requires(std::is_base_of_v<Module, M>) Model(M& /*module*/) {
    static_assert(!std::is_base_of_v<Module, M>,
                  "a Model takes over its module: write Model model = std::move(module), or "
                  "Model(std::make_shared<Linear>(3, 4)) if you need both");
  }

  Tensor operator()(const Tensor& x) const { return module()(x); }
  Tensors operator()(const Tensors& x) const { return module()(x); }
  Module* operator->() const { return &module(); }
  Module& module() const {
    check(module_ != nullptr, "model: empty handle; want a model");
    return *module_;
  }
  const std::shared_ptr<Module>& shared() const { return module_; }
  explicit operator bool() const { return module_ != nullptr; }

  Parameters parameters() const { return module().parameters(); }
  std::vector<NamedTensor> buffers() const { return module().buffers(); }
  StateDict state_dict() const { return module().state_dict(); }
  NameDifferences load_state_dict(const StateDict& state, bool strict = true) const {
    return module().load_state_dict(state, strict);
  }
  template <class Map>
  requires std::is_same_v<Map, std::map<std::string, Tensor>> NameDifferences
  load_state_dict(const Map& state, bool strict = true)
  const { return module().load_state_dict(state, strict); }
  void train(bool training = true) const { module().train(training); }
  void eval() const { module().eval(); }
  void zero_grad() const { module().zero_grad(); }
  std::string to_string() const { return module().to_string(); }

 private:
  std::shared_ptr<Module> module_;
};

}  // namespace booster
