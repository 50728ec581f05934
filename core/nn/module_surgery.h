// Module::Surgery: modules that stand in for others (replace_modules), and the check that a called
// module is a part. For the module's thread.
#pragma once

#include "core/nn/module.h"

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace booster {

struct Module::Surgery {
  // A part to replace: its place among its parent's children, and its successor.
  struct Replacement {
    Module* parent;
    size_t place;
    Model successor;
  };

  // Returns the module that a call of `called` must reach: its stand-in, unless the stand-in is
  // what calls it. Null: the module itself.
  static std::shared_ptr<Module> called_instead(const Module& called);

  // Returns the module that stands in for `module` now, or the module itself.
  static const Module& now_called(const Module& module);

  // Marks a module as running on this thread. Throws for one with trainable parameters that another
  // module calls although nothing owns it: a plain member. Its parameters would silently not train.
  class Running {
   public:
    explicit Running(const Module& module);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
  };

  // Runs a module's own links. While a stand-in does so, its calls reach the module in whose place
  // it is. Backward may call this again for recomputation.
  template <class T>
  static T links(Module& module, const T& x, int first, int last) {
    const Standing standing(module);
    if constexpr (std::is_same_v<T, Tensor>)
      return module.forward_links(x, first, last);
    else
      return module.forward_named_links(x, first, last);
  }

  // Adds the parts below `module` whose names match; not parts of parts that match.
  static void find(Module& module, const std::string& prefix, const std::string& pattern,
                   const std::function<Model(const Model&)>& make, std::vector<Replacement>& found);
  static void replace(const Replacement& replacement);

 private:
  class Standing {
   public:
    explicit Standing(const Module& module);
    ~Standing();
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;

   private:
    bool stands_in_;
  };
};

}  // namespace booster
