// The findings of a diagnosis: records in one format for all sources.
//
// A pitfall has a number, 1 to 40, in the catalogue of mixed-precision pitfalls in
// docs/numerics.md. Output and files refer to it by that number. The same pitfall at the same
// object is one finding with a count. For one thread.
#pragma once

#include "booster/numerics/diagnose.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace booster::numerics {

struct PitfallEntry {
  Pitfall pitfall;
  Severity severity;
  const char* name;    // "scale collapses"
  const char* remedy;  // the rule of thumb for fixing it
};
// Returns all 40, by number.
const std::array<PitfallEntry, 40>& pitfalls();
// Throws for Pitfall::none.
const PitfallEntry& entry_of(Pitfall pitfall);

class Findings {
 public:
  // Adds a finding with the pitfall's severity, and with its remedy unless the finding has its own.
  void add(Pitfall pitfall, int64_t step, std::string object, std::string text,
           nlohmann::ordered_json numbers = nlohmann::ordered_json::object());
  void add(Finding finding);

  const std::vector<Finding>& list() const { return list_; }
  bool has(Pitfall pitfall) const;
  bool has(Severity severity) const;
  // Merges the findings of several ranks. A finding of only some ranks names them. A finding that
  // only states that the cause is on another rank is replaced by the cause.
  static Findings merged(const std::vector<Findings>& by_rank);
  // Returns the findings, errors first, then by step.
  std::vector<Finding> sorted() const;

 private:
  // Returns a finding with the same pitfall and object, or null.
  Finding* find_like(const Finding& finding);

  std::vector<Finding> list_;
};

}  // namespace booster::numerics
