// Resumes from checkpoints with one random fault but correct hashes. An error means that nothing
// changed, bit for bit; no error means that everything equals the files.
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/training/session.h"
#include "platform/files/sha256.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

using namespace booster;
using namespace booster::test;

namespace {

using Json = nlohmann::json;
using Bytes = std::map<std::string, std::string>;  // by tensor

std::string bytes_of(const Tensor& tensor) {
  const Tensor dense = untracked::contiguous(tensor);
  return tensor.shape().to_string() + name_of(tensor.dtype()) +
         std::string(static_cast<const char*>(dense.data()), static_cast<size_t>(dense.bytes()));
}

void add(Bytes& all, const std::string& prefix, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) all[prefix + name] = bytes_of(tensor);
}

Bytes bytes_of(const CheckpointContents& contents) {
  Bytes all;
  add(all, "model ", contents.model);
  add(all, "optimizer ", contents.optimizer);
  add(all, "precision ", contents.precision);
  add(all, "program ", contents.program);
  return all;
}

// Everything that a training holds.
struct Snapshot {
  Bytes tensors;
  Json numbers;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

Snapshot snapshot(const SmallTraining& training) {
  const Session& session = training.boosted.model.session();
  const OptimizerState optimizer = session.optimizer.state_dict();
  Snapshot all;
  for (const auto& [name, tensor] : session.model.state_dict())
    all.tensors["model " + name] = bytes_of(tensor);
  add(all.tensors, "optimizer ", optimizer.tensors);
  for (const auto& [name, tensor] : session.precision->state_tensors())
    all.tensors["precision " + name] = bytes_of(tensor);
  for (const auto& [name, tensor] : session.optimizer.parameters_with_grad())
    all.tensors["gradient " + name] = bytes_of(tensor.grad());
  for (const auto& group : optimizer.groups)
    all.numbers["groups"].push_back({group.options, group.constructed, group.step});
  all.numbers["steps"] = optimizer.steps;
  const LRSchedulerState schedule = training.boosted.lr_scheduler.state_dict();
  all.numbers["schedule"] = {schedule.name, schedule.step, schedule.base_lrs};
  all.numbers["precision"] = session.precision->state();
  const LoaderState position = training.boosted.dataloader.state();
  all.numbers["position"] = {position.epoch, position.batch};
  const RandomState random = default_generator().state();
  all.numbers["random"] = {random.seed, random.offset};
  return all;
}

// --- faults

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(engine_); }

 private:
  std::mt19937_64 engine_;
};

Json wrong_value(Dice& dice) {
  static const std::vector<Json> values = {
      nullptr, true, "text", "", Json::array(), Json::object(), -1, 0, 1, 3, 0.5, -0.5, 1e308,
      -1e308, 1e-308, int64_t{1} << 53, (int64_t{1} << 53) + 1, INT64_MAX, INT64_MIN, UINT64_MAX,
      2.0, 9.3e18, Json::array({1}), Json::array({1, 2, 3}), Json{{"x", 1}}};
  return values[dice.below(values.size())];
}

// Changes, drops, adds or renames one value somewhere in the tree. Returns its path.
std::string spoil(Json& json, Dice& dice) {
  Json* at = &json;
  std::string path;
  while (at->is_structured() && !at->empty()) {
    auto member = at->begin();
    std::advance(member, dice.below(at->size()));
    path += "/" + (at->is_object() ? member.key() : std::to_string(member - at->begin()));
    const bool deeper = member->is_structured() && !member->empty() && dice.below(8) > 0;
    if (deeper) {
      at = &*member;
      continue;
    }
    switch (dice.below(at->is_object() ? 6 : 4)) {
      case 0: at->erase(member); return path + " dropped";
      case 4: {
        const Json value = *member;
        const std::string name = member.key() + "x";
        at->erase(member);
        (*at)[name] = value;
        return path + " renamed";
      }
      case 5: (*at)["more"] = 1; return path + " beside it one more";
      default: *member = wrong_value(dice); return path + " = " + member->dump();
    }
  }
  return "nothing";
}

std::string spoil(TensorMap& tensors, Dice& dice) {
  if (tensors.empty()) {
    tensors.emplace("more", ones({2}));
    return "one more";
  }
  auto at = tensors.begin();
  std::advance(at, dice.below(tensors.size()));
  const std::string name = at->first;
  const Tensor old = at->second;
  switch (dice.below(7)) {
    case 0: tensors.erase(at); return name + " dropped";
    case 1: tensors.erase(at); tensors.emplace(name + "x", old); return name + " renamed";
    case 2: tensors.emplace(name + ".steps", ones({0}, {.dtype = DType::i64})); return name + " +";
    case 3: at->second = zeros({old.numel() + 1}, {.dtype = old.dtype()}); return name + " longer";
    case 4: at->second = zeros({0}, {.dtype = old.dtype()}); return name + " empty";
    case 5: at->second = zeros(old.shape(), {.dtype = DType::boolean}); return name + " boolean";
    default: break;
  }
  at->second = old.clone();
  if (is_floating(old.dtype())) at->second.fill_(NAN);
  return name + " nan";
}

// --- files

// Writes a checkpoint with any contents and a manifest with correct hashes.
void write(const TemporaryFolder& root, const CheckpointContents& contents,
           const std::string& state_text) {
  const std::string folder = "step-000000006/";
  std::filesystem::create_directories(root / folder);
  save_safetensors(root / (folder + "model.safetensors"), contents.model);
  save_safetensors(root / (folder + "optimizer.safetensors"), contents.optimizer);
  if (!contents.precision.empty())
    save_safetensors(root / (folder + "precision.safetensors"), contents.precision);
  if (!contents.program.empty())
    save_safetensors(root / (folder + "program.safetensors"), contents.program);
  root.write(folder + "state.json", state_text);
  Manifest manifest{6, {}, Json::object()};
  for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
    const std::string name = entry.path().filename().string(), text = root.read(folder + name);
    manifest.files.push_back({name, text.size(), sha256(std::as_bytes(std::span(text)))});
  }
  root.write(folder + "manifest.json", manifest.to_text());
}

// Returns the state that a resumed training saves: its own settings replace those in the file.
Json expected(Json saved, const Json& own) {
  for (size_t i = 0; i < saved["optimizer"]["groups"].size(); ++i) {
    Json& group = saved["optimizer"]["groups"][i];
    const Json& now = own["optimizer"]["groups"][i];
    for (const auto& [name, value] : now["constructed"].items())
      if (group["constructed"][name] != value) group["options"][name] = value;
    group["constructed"] = now["constructed"];
    group["options"]["lr"] = now["options"]["lr"];  // the schedule's
  }
  for (const auto& [name, value] : own["precision"]["constructed"].items())
    if (saved["precision"]["constructed"].contains(name) &&
        saved["precision"]["constructed"][name] != value)
      saved["precision"]["state"][name] = value;
  saved["precision"]["constructed"] = own["precision"]["constructed"];
  for (const char* key : {"settings", "base_lrs"})
    saved["lr_scheduler"][key] = own["lr_scheduler"][key];
  saved["plugin"] = own["plugin"];
  saved["settings"] = own["settings"];
  return saved;
}

struct Tally {
  size_t refused = 0, taken = 0;
};

void try_fault(const SmallSettings& settings, const CheckpointContents& whole, uint64_t seed,
               Tally& tally) {
  Dice dice(seed);
  CheckpointContents contents = whole;
  const size_t which = dice.below(9);
  std::string fault;
  Json& numbers = contents.state["precision"]["state"];
  if (which == 4 && !numbers.empty()) fault = "precision: " + spoil(numbers, dice);
  else if (which < 5) fault = spoil(contents.state, dice);
  else if (which == 5) fault = spoil(contents.model, dice);
  else if (which == 6) fault = spoil(contents.optimizer, dice);
  else if (which == 7)
    fault = spoil(contents.precision, dice);
  else
    fault = spoil(contents.program, dice);
  CAPTURE(settings.strategy);
  CAPTURE(seed);
  CAPTURE(which);
  CAPTURE(fault);
  const TemporaryFolder root;
  write(root, contents, contents.state.dump());

  SmallTraining training(settings);
  training.steps(3);
  const Snapshot before = snapshot(training);
  try {
    const auto resumed = resume_training(root.path(), training.boosted, ignore_line);
    REQUIRE(resumed);
    ++tally.taken;
    const TemporaryFolder again;
    save_training(again.path(), training.boosted,
                  {.step = resumed->step, .extra = resumed->extra, .tensors = resumed->tensors});
    const CheckpointContents saved = load_checkpoint(*latest_checkpoint(again.path(), ignore_line));
    // 16-bit weights are derived from their masters.
    const bool spoilt_one_of_both = settings.strategy == "fp16_naive" && (which == 5 || which == 6);
    if (!spoilt_one_of_both)
      CHECK(bytes_of(saved) == bytes_of(contents));
    CHECK(saved.state == expected(contents.state, saved.state));
  } catch (const Error& error) {
    ++tally.refused;
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.kind() == ErrorKind::data);
    CHECK(text.find(root.path().string()) != text.npos);
    const bool unchanged = snapshot(training) == before;
    CHECK(unchanged);
  }
}

}  // namespace

TEST_CASE("a resume that fails has changed nothing, and one that does not has changed everything") {
  for (const char* strategy :
       {"fp32", "fp16", "fp8", "fp16_apex", "fp16_naive", "fp16_paddle", "fp64"}) {
    const SmallSettings settings = {.strategy = strategy};
    const TemporaryFolder root;
    SmallTraining first(settings);
    first.steps(6);
    save_training(root.path(), first.boosted,
                  {.step = 6,
                   .extra = {{"a", 1}},
                   .tensors = {{"own", uniform({3}, 0, 1)}, {"whole", arange(4)}}});
    const CheckpointContents whole = load_checkpoint(root / "step-000000006");
    Tally tally;
    const char* faults = std::getenv("FAULTS");
    const auto seeds = testing::draws(faults ? static_cast<unsigned>(std::atoi(faults)) : 100);
    for (const unsigned seed : seeds) try_fault(settings, whole, seed, tally);
    CHECK(tally.refused > seeds.size() / 3);
    CHECK(tally.taken > seeds.size() / 20);
  }
}

TEST_CASE("text that is no JSON, or of another meaning, changes nothing") {
  const TemporaryFolder root;
  SmallTraining first;
  first.steps(6);
  save_training(root.path(), first.boosted, {.step = 6});
  const CheckpointContents whole = load_checkpoint(root / "step-000000006");
  const std::string text = whole.state.dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != changed.npos);
    return changed.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {with("\"batch\":2", "\"batch\":NaN"), with("\"batch\":2", "\"batch\":1e400"),
        with("\"batch\":2", "\"batch\":2.0"), with("\"batch\":2", "\"batch\":9223372036854775807"),
        with("\"batch\":2", "\"batch\":5"), with("{},\"step\":6}", "{},\"step\":7}"),
        std::string("{}"), std::string(), std::string("null")}) {
    CAPTURE(bad);
    const TemporaryFolder spoilt;
    write(spoilt, whole, bad);
    SmallTraining training;
    training.steps(3);
    const Snapshot before = snapshot(training);
    CHECK_THROWS_AS(resume_training(spoilt.path(), training.boosted, ignore_line), Error);
    const bool unchanged = snapshot(training) == before;
    CHECK(unchanged);
  }
}
