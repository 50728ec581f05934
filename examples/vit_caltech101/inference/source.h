// The weights that --evaluate and --predict use.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <string>
#include <vector>

namespace example {

class Source {
 public:
  // Uses the weights that `word` names, or else inference.checkpoint. Rank 0 searches, and all
  // ranks use its result. Throws errors of kind data that name what is missing. Collective.
  Source(const booster::Config& config, const booster::World& world, const std::string& word);

  // Returns whether the word named the weights; if not, it means something else.
  bool is_word() const { return is_word_; }
  // Returns the class names by label; empty if another program made the weights.
  const std::vector<std::string>& classes() const { return classes_; }
  // Returns "step-000000012" or "step-000000012, averages".
  std::string name() const;
  // Returns the name used in inference.weights.
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
