// Parameters that come and go by unit: each rank keeps its part of every parameter
// (plugins/parameters/rank_parts.h), and the whole parameters of a unit exist only while its module
// computes.
//
// A unit is a module with all below it. Hooks gather it before the module's forward, and before
// its backward (when the gradient of its result is known); it goes after forward, and in backward
// when its last gradient is complete. Units ahead are gathered while one computes, in the order of
// the last pass. What belongs to no unit, or to several, is there in a whole pass.
// All ranks must use the model alike. Numbers that somebody wrote into a whole parameter are kept.
#pragma once

#include "core/nn/module.h"
#include "core/tensor/staging.h"
#include "parallel/layout.h"
#include "plugins/parameters/rank_parts.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct ParameterUnitOptions {
  std::vector<std::string> wrap;  // patterns of names of modules ("blocks.*"); none: see wrapped()
  int64_t prefetch = 1;           // units that are gathered ahead
  bool recompute = false;         // units keep their inputs only, and run again in backward
  bool on_host = false;           // parts are in host memory
  uint32_t training = 0;          // tells messages from those of others on the group
};

class ParameterUnits {
 public:
  // Cuts every parameter of the model: rank 0's numbers are everybody's. Parameters may be without
  // memory so far; they get it one by one.
  // `all` ranks have the same model, cut among those of `group`.
  ParameterUnits(const Model& model, const Group& all, const Group& group,
                 const ParameterUnitOptions& options);
  ~ParameterUnits();
  ParameterUnits(const ParameterUnits&) = delete;
  ParameterUnits& operator=(const ParameterUnits&) = delete;

  void begin(Pass pass);
  // `stay_whole`: everything is there afterwards.
  void end(Pass pass, bool stay_whole);
  // The parts become what was written into whole parameters.
  void keep_writes();
  // Everything is cut again, nothing is on its way; what was written is kept, or forgotten because
  // the parts are newer.
  void release_all();
  void drop_all();
  // Whole until released: what is called outside of passes.
  void gather_all();

  // The parameters among these, by unit, those first that backward completes first.
  std::vector<Parameters> by_unit(const Parameters& parameters) const;

 private:
  struct Member {
    std::string name;
    Tensor parameter;
    uint32_t version = 0;  // when it was gathered
    int hook = 0;
  };
  // Members of one dtype, on their way.
  struct Arriving {
    std::vector<size_t> members;
    PackedParts packed;
    Tensor all;
    Work work;
  };
  struct Unit {
    Module* module = nullptr;  // null: of the rest
    std::vector<Member> members;
    std::vector<int> hooks;    // of the module, before and after
    std::vector<Arriving> arriving;
    bool is_whole = false;
    size_t missing = 0;        // gradients of this pass
  };
  enum class Phase : uint8_t { outside, forward, backward };

  void make_units(const std::vector<Module*>& modules);
  void cut(Member& member, const Group& all) const;
  void watch(size_t unit);
  void after_forward(size_t unit, const Tensor& result);
  void grad_arrived(size_t unit);
  // Gathers the unit and starts those that come next.
  void use(size_t unit);
  void start(size_t unit);
  // The parts of these members side by side, on their device.
  Tensor own_parts(const Unit& unit, const std::vector<size_t>& members, const PackedParts& packed);
  void gather(size_t unit);
  void release(size_t unit);
  void drop(Unit& unit);
  static void keep_writes(Unit& unit);

  Model model_;
  Group group_;
  ParameterUnitOptions options_;
  std::vector<Unit> units_;         // the rest first
  std::optional<Staging> staging_;  // of parts in host memory on their way to a GPU
  Phase phase_ = Phase::outside;
  bool in_backward_ = false;
  size_t last_ = 0;                         // the unit used last in this pass
  std::map<size_t, size_t> next_[3] = {};   // by phase: what was used after each
  std::shared_ptr<ParameterUnits*> self_;   // for hooks that a tape may hold longer; null then
};

}  // namespace booster
