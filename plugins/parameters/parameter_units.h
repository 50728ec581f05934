// Parameters gathered and freed by unit. Each rank keeps its part of every parameter
// (plugins/parameters/rank_parts.h); the whole parameters of a unit exist only while its module
// computes.
//
// A unit is a module with all modules below it. Hooks gather it before its module's forward, and
// before its backward, when the gradient of its result is known. It is freed after forward, and in
// backward when its last gradient is complete. While one unit computes, the next ones are gathered
// ahead, in the order of the last pass. Parameters in no unit, or in several, are whole throughout
// a pass. All ranks must use the model in the same way. Values written into a whole parameter are
// kept.
#pragma once

#include "core/nn/module.h"
#include "core/tensor/staging.h"
#include "parallel/mesh.h"
#include "plugins/parameters/rank_parts.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct ParameterUnitOptions {
  std::vector<std::string> wrap;  // patterns ("blocks.*"); none: see modules_to_wrap()
  int64_t prefetch = 1;           // units gathered ahead
  bool recompute = false;         // units keep only their inputs, and run again in backward
  bool on_host = false;           // parts are in host memory
  uint32_t training = 0;          // tags its messages on the group
};

class ParameterUnits {
 public:
  // Shards every parameter of the model over `group`, with rank 0's values for all. All ranks of
  // `all` have the same model. Parameters without memory get it one at a time.
  ParameterUnits(const Model& model, const Group& all, const Group& group,
                 const ParameterUnitOptions& options);
  ~ParameterUnits();
  ParameterUnits(const ParameterUnits&) = delete;
  ParameterUnits& operator=(const ParameterUnits&) = delete;

  void begin(Pass pass);
  // Ends a pass. With `stay_whole` every parameter is whole afterwards.
  void end(Pass pass, bool stay_whole);
  // Frees the whole parameters of a pass that threw, unless they stay whole. Waits for no message,
  // since other ranks may not have sent theirs.
  void abandon(Pass pass, bool stay_whole) noexcept;
  // Copies values written into whole parameters to the parts.
  void keep_writes();
  // Free all whole parameters; afterwards no gather is in progress. release_all() keeps written
  // values; drop_all() discards them because the parts are newer.
  void release_all();
  void drop_all();
  // Makes all parameters whole until released, for code outside of passes.
  void gather_all();

  // Returns these parameters by unit, in the order in which backward completes them.
  std::vector<Parameters> by_unit(const Parameters& parameters) const;

 private:
  struct Member {
    std::string name;
    Tensor parameter;
    uint32_t version = 0;  // when it was gathered
    int hook = 0;
  };
  // Members of one dtype that are being gathered.
  struct Arriving {
    std::vector<size_t> members;
    PackedParts packed;
    Tensor all;
    Work work;
  };
  struct Unit {
    Module* module = nullptr;  // null: the rest, which is in no unit
    std::vector<Member> members;
    std::vector<int> hooks;  // of the module, before and after forward
    std::vector<Arriving> arriving;
    bool is_whole = false;
    size_t missing = 0;  // gradients of this pass
  };
  enum class Phase : uint8_t { outside, forward, backward };

  void make_units(const std::vector<Module*>& modules);
  void cut(Member& member, const Group& all) const;
  void watch(size_t unit);
  void after_forward(size_t unit, const Tensors& results);
  void grad_arrived(size_t unit);
  // Gathers the unit and starts gathering the next ones.
  void use(size_t unit);
  void start(size_t unit);
  // Returns the parts of these members side by side, on the device of the members.
  Tensor own_parts(const Unit& unit, const std::vector<size_t>& members, const PackedParts& packed);
  void gather(size_t unit);
  void leave(Pass pass);
  void release(size_t unit);
  void drop(Unit& unit);
  // Frees the whole parameters that have arrived; others may still be on their way.
  static void give_back(Unit& unit);
  static void keep_writes(Unit& unit);

  Model model_;
  Group group_;
  ParameterUnitOptions options_;
  std::vector<Unit> units_;         // the rest first
  std::optional<Staging> staging_;  // for parts in host memory that go to a GPU
  Phase phase_ = Phase::outside;
  bool in_backward_ = false;
  size_t last_ = 0;                        // the unit used last in this pass
  std::map<size_t, size_t> next_[3] = {};  // by phase: the next unit after each
  std::shared_ptr<ParameterUnits*> self_;  // for hooks that outlive it; then points to null
};

}  // namespace booster
