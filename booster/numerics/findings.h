// The findings of a diagnosis: records in one format, whatever made them.
//
// A rule has a number, 1 to 40, from the catalogue of pitfalls of mixed precision in
// docs/numerics.md; 0 stands for anything else. The same rule at the same object is one finding
// with a count. For one thread.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace booster::numerics {

enum class Severity : uint8_t { info, warning, error };
const char* name_of(Severity severity);

struct Pitfall {
  int rule;
  Severity severity;
  const char* name;    // "scale collapses"
  const char* remedy;  // the rule of thumb for fixing it
};
// All 40, by number.
const std::array<Pitfall, 40>& pitfalls();
const Pitfall& pitfall(int rule);

struct Finding {
  int rule = 0;
  Severity severity = Severity::info;
  int64_t step = 0;    // the first step
  std::string object;  // op, layer or parameter
  std::string dtype;   // if it matters
  std::string text;    // what was seen, with numbers
  std::string remedy;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  int64_t count = 1;            // number of steps or calls in which it was seen
  std::vector<int> ranks = {};  // the ranks that saw it, if not all did
  bool elsewhere = false;       // says that the cause is on another rank

  nlohmann::ordered_json to_json() const;
  static Finding from_json(const nlohmann::ordered_json& json);
  std::string to_string() const;
};

class Findings {
 public:
  // Uses the pitfall's severity, and its remedy unless the finding has its own.
  void add(int rule, int64_t step, std::string object, std::string text,
           nlohmann::ordered_json numbers = nlohmann::ordered_json::object());
  void add(Finding finding);

  const std::vector<Finding>& list() const { return list_; }
  bool has(int rule) const;
  bool has(Severity severity) const;
  // Merges the findings of several ranks: a finding of only some ranks names them. A finding that
  // only says that the cause is on another rank is replaced by the cause.
  static Findings merged(const std::vector<Findings>& by_rank);
  // Errors first, then by step.
  std::vector<Finding> sorted() const;

 private:
  // The finding with the same rule and object, or null.
  Finding* find_like(const Finding& finding);

  std::vector<Finding> list_;
};

}  // namespace booster::numerics
