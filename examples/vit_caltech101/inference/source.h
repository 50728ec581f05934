// Which weights --evaluate and --predict use.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <string>
#include <vector>

namespace example {

class Source {
 public:
  // What `word` names, if it names weights, else what inference.checkpoint does. Rank 0 looks, and
  // all ranks use what it finds; errors of kind data say what there is none of. Collective.
  Source(const booster::Config& config, const booster::World& world, const std::string& word);

  // Whether the word named them; else it is something else.
  bool is_word() const { return is_word_; }
  // Names of classes by label; none if another program made the weights.
  const std::vector<std::string>& classes() const { return classes_; }
  // "step-000000012", "step-000000012, averages"
  std::string name() const;
  // What inference.weights calls them.
  const char* kind() const { return averages_ ? "averages" : "trained"; }
  const std::filesystem::path& path() const { return path_; }
  void load(const booster::BoostedModel& model) const;

 private:
  void check_same(const booster::World& world) const;

  bool is_word_ = false, averages_ = false;
  std::filesystem::path path_;  // a checkpoint, or a model's files
  std::vector<std::string> classes_;
};

}  // namespace example
