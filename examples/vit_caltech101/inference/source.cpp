#include "examples/vit_caltech101/inference/source.h"

#include "examples/training/agreement.h"

#include <fmt/format.h>

#include <optional>

namespace example {

using namespace booster;
namespace fs = std::filesystem;

namespace {

constexpr const char* what = "inference.checkpoint";

fs::path of_training(const Config& config, bool best) {
  const fs::path root =
      fs::path(config.get<std::string>("train.output_dir")) / (best ? "best" : "checkpoint");
  const auto found = latest_checkpoint(root, warn);
  if (!found)
    fail_data("train.output_dir: no checkpoint in {}; want the folder of a training{}",
              root.string(), best ? " with train.keep_best" : "");
  return *found;
}

// `word` names weights or is empty.
fs::path find(const Config& config, const std::string& word) {
  const auto wanted = config.get<std::string>(what);
  const bool best = wanted == "best", newest = wanted == "newest";
  check(word.empty() || newest, "{}: two checkpoints; got {} and {}, want one of them", what,
        wanted, word);
  if (word.empty() && (best || newest)) return of_training(config, best);
  const std::string& path = word.empty() ? wanted : word;
  if (!holds_weights(path))
    fail_data(
        "{}: no weights; got {}, want newest, best, a checkpoint, the folder of a training or "
        "a safetensors file",
        what, path);
  return find_weights(path, warn).weights;
}

std::vector<std::string> classes_of(const fs::path& checkpoint) {
  std::vector<std::string> classes;
  const nlohmann::json state = checkpoint_state(checkpoint);
  const StateReader whole(state, (checkpoint / "state.json").string());
  const auto extra = whole.find("extra");
  const auto names = extra ? extra->find("classes") : std::nullopt;
  if (!names) return classes;
  for (const StateReader& name : names->items()) classes.push_back(terminal_text(name.text()));
  return classes;
}

}  // namespace

Source::Source(const Config& config, const World& world, const std::string& word)
    : averages_(config.get<std::string>("inference.weights") == "averages") {
  const auto named =
      told_by_first_rank(world, what, [&] { return holds_weights(word) ? word : std::string(); });
  is_word_ = !named.empty();
  path_ = told_by_first_rank(world, what, [&] { return find(config, named).string(); });
  check_same(world);
  if (is_checkpoint(path_))
    classes_ = classes_of(path_);
  else
    check(!averages_, "inference.weights: averages; got a model's files, want a checkpoint");
}

// Ranks on different machines may have different folders of that name.
void Source::check_same(const World& world) const {
  const auto hash = [&] { return is_checkpoint(path_) ? manifest_hash(path_) : std::string(); };
  if (told_by_first_rank(world, what, hash) != hash())
    fail_data("{}: another checkpoint than that of rank 0; want one folder for all ranks",
              path_.string());
}

std::string Source::name() const {
  return path_.filename().string() + (averages_ ? ", averages" : "");
}

void Source::load(const BoostedModel& model) const {
  load_model(model, path_, true);
  if (averages_) load_averages(model, path_);
}

}  // namespace example
