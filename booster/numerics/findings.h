// What a diagnosis found: records of one form, whatever found them.
//
// A rule has a number, 1 to 40, from the catalogue of pitfalls of mixed precision in
// docs/numerics.md; 0 stands for what is on no list. The same rule at the same object is one
// finding with a count. For one thread.
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
  const char* remedy;  // the rule of thumb that helps
};
// All 40, by number.
const std::array<Pitfall, 40>& pitfalls();
const Pitfall& pitfall(int rule);

struct Finding {
  int rule = 0;
  Severity severity = Severity::info;
  int64_t step = 0;    // the first one
  std::string object;  // op, layer or parameter
  std::string dtype;   // where one matters
  std::string text;    // what was seen, with numbers
  std::string remedy;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  int64_t count = 1;            // steps or calls in which it was seen
  std::vector<int> ranks = {};  // that saw it, where there are several and not all of them did
  bool elsewhere = false;       // says that the cause lies on another rank

  nlohmann::ordered_json to_json() const;
  static Finding from_json(const nlohmann::ordered_json& json);
  std::string to_string() const;
};

class Findings {
 public:
  // With the severity and remedy of the pitfall where the finding has no remedy of its own.
  void add(int rule, int64_t step, std::string object, std::string text,
           nlohmann::ordered_json numbers = nlohmann::ordered_json::object());
  void add(Finding finding);

  const std::vector<Finding>& list() const { return list_; }
  bool has(int rule) const;
  bool has(Severity severity) const;
  // What several ranks found, by rank, as one: a finding of some of them says which. One that only
  // says that the cause lies elsewhere gives way to the cause.
  static Findings merged(const std::vector<Findings>& by_rank);
  // Errors first, then by step.
  std::vector<Finding> sorted() const;

 private:
  // One of the same rule and object; null: none.
  Finding* find_like(const Finding& finding);

  std::vector<Finding> list_;
};

}  // namespace booster::numerics
