// A model's weights in files of Hugging Face's layout, and malicious files that would lead a reader
// elsewhere.
#include "booster/booster.h"
#include "booster/checkpoint/start_weights.h"
#include "tests/booster/temporary_folder.h"
#include "tests/file_faults.h"
#include "tests/golden_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <random>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

namespace fs = std::filesystem;

const std::string sharded_model = test::golden_folder() + "/booster/sharded";
constexpr double bytes_64 = 64.0 / (1 << 20);

// Returns the model of the golden folder; its values count up as in the golden script.
Model counted() {
  Model model = Sequential{Linear(5, 4), Linear(4, 3)};
  const NoGradGuard no_grad;
  double next = 0;
  for (const char* name : {"0.weight", "0.bias", "1.weight", "1.bias"})
    for (auto& [own, tensor] : model.state_dict())
      if (own == name) {
        std::vector<float> values;
        for (int64_t i = 0; i < tensor.numel(); ++i) values.push_back(float(next++ / 8));
        tensor.detach().copy_(from_vector(values, tensor.shape()));
      }
  return model;
}

Model drawn(uint64_t seed) {
  manual_seed(seed);
  return Sequential{Linear(5, 4), Linear(4, 3)};
}

struct Run {
  Booster booster;
  BoostedPair boosted;
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& [name, tensor] : boosted.model.unwrap().state_dict())
      for (const float value : tensor.to_vector<float>()) all.push_back(value);
    return all;
  }
};

Run boosted(const Model& model, const Choice<Plugin>& plugin = "single",
            const Choice<Precision>& precision = "fp32") {
  Booster booster({.plugin = plugin, .mixed_precision = precision});
  auto pair = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  return {std::move(booster), pair};
}

void save(const Run& run, const fs::path& to, const SaveModelOptions& options = {}) {
  run.booster.save_model(run.boosted.model, to, options);
}
NameDifferences load(const Run& run, const fs::path& from, bool strict = true) {
  return run.booster.load_model(run.boosted.model, from, strict);
}

// A copy of the golden folder that a test may change.
struct Copy {
  TemporaryFolder root;
  fs::path folder = root / "model";
  Copy() { fs::copy(sharded_model, folder); }
  std::string index() const { return root.read("model/model.safetensors.index.json"); }
  void put_index(const std::string& text) const {
    root.write("model/model.safetensors.index.json", text);
  }
  void replace(const std::string& from, const std::string& to) const {
    std::string text = index();
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    put_index(text.replace(at, from.size(), to));
  }
  void refuses(const char* part) const {
    const Run run = boosted(drawn(1));
    const auto before = run.weights();
    CHECK_THROWS_WITH_AS(load(run, folder), Contains(part), Error);
    CHECK(run.weights() == before);
  }
};

}  // namespace

TEST_CASE("a folder that Hugging Face's libraries wrote is loaded, by folder and by index") {
  const auto want = boosted(counted()).weights();
  for (const std::string& path : {sharded_model, sharded_model + "/model.safetensors.index.json"}) {
    const Run run = boosted(drawn(1));
    load(run, path);
    CHECK(run.weights() == want);
  }
}

TEST_CASE("a folder of shards has the bytes that Hugging Face's libraries write") {
  const TemporaryFolder root;
  save(boosted(counted()), root / "model", {.shard = true, .size_per_shard = bytes_64});
  const TemporaryFolder reference;
  fs::copy(sharded_model, reference / "model");
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(sharded_model)) {
    const std::string name = "model/" + entry.path().filename().string();
    CAPTURE(name);
    CHECK(root.read(name) == reference.read(name));
    ++files;
  }
  CHECK(files == 4);
}

TEST_CASE("a model goes through a file, a folder of one file and one of a variant") {
  const TemporaryFolder root;
  const Run first = boosted(drawn(3));
  save(first, root / "deep/weights.safetensors");
  save(first, root / "one", {.shard = true});
  save(first, root / "variant", {.shard = true, .size_per_shard = bytes_64, .prefix = "ema"});
  CHECK(fs::exists(root / "one/model.safetensors"));
  CHECK(fs::exists(root / "variant/model.safetensors.index.ema.json"));
  CHECK(fs::exists(root / "variant/model.ema-00002-of-00003.safetensors"));
  for (const char* path : {"deep/weights.safetensors", "one", "one/model.safetensors", "variant"}) {
    const Run second = boosted(drawn(4));
    load(second, root / path);
    CHECK(second.weights() == first.weights());
  }
}

TEST_CASE("masters go on from the weights that were loaded, and dtypes are converted") {
  const TemporaryFolder root;
  save(boosted(drawn(3)), root / "f32.safetensors");
  const Run run = boosted(drawn(4), "single", BF16MixedPrecision({.style = "cast"}));
  load(run, root / "f32.safetensors");
  auto [net, opt] = run.boosted;
  opt.zero_grad();
  run.booster.backward(sum(net(zeros({2, 5}))) * 0.0, opt);
  opt.step();  // rewrites weights from masters
  const Run want = boosted(drawn(3));
  const auto got = run.weights(), exact = want.weights();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(exact[i]).epsilon(0.01));
  save(run, root / "bf16.safetensors");
  CHECK(load_safetensors(root / "bf16.safetensors").at("0.weight").dtype() == DType::bf16);
}

TEST_CASE("names must be the model's, unless it is said otherwise") {
  const TemporaryFolder root;
  TensorMap tensors = load_safetensors(sharded_model + "/model-00002-of-00003.safetensors");
  tensors.emplace("head.weight", ones({2}));
  save_safetensors(root / "x.safetensors", tensors);
  const Run run = boosted(drawn(1));
  const auto before = run.weights();
  CHECK_THROWS_WITH_AS(load(run, root / "x.safetensors"),
                       Contains("2 missing: 0.weight, 1.bias; 1 unexpected: head.weight"), Error);
  CHECK(run.weights() == before);
  const NameDifferences found = load(run, root / "x.safetensors", false);
  CHECK(found.missing == std::vector<std::string>{"0.weight", "1.bias"});
  CHECK(found.unexpected == std::vector<std::string>{"head.weight"});
  const auto bias = run.boosted.model.unwrap().state_dict();
  for (const auto& [name, tensor] : bias)
    if (name == "0.bias") CHECK(tensor.to_vector<float>()[0] == 2.5f);
  save_safetensors(root / "y.safetensors", {{"0.bias", ones({5})}});
  CHECK_THROWS_WITH_AS(load(run, root / "y.safetensors", false),
                       Contains("0.bias (got (5,) f32, want (4,) f32)"), Error);
  save_safetensors(root / "z.safetensors", {{"other", ones({5})}});
  CHECK_THROWS_WITH_AS(load(run, root / "z.safetensors", false),
                       Contains("holds no tensor of the model"), Error);
}

TEST_CASE("an index that leads elsewhere is refused, and nothing is loaded") {
  for (const char* name :
       {"../model-00001-of-00003.safetensors", "/etc/passwd", "..", ".", "", ".hidden.safetensors",
        "a/b.safetensors", "a\\\\b.safetensors", "model.json", ".safetensors"}) {
    CAPTURE(name);
    const Copy copy;
    fs::copy(sharded_model + "/model-00001-of-00003.safetensors",
             copy.root / "model-00001-of-00003.safetensors");
    copy.replace("model-00001-of-00003.safetensors", name);
    copy.refuses("want the plain name of a .safetensors file");
  }
  const Copy copy;
  const fs::path shard = copy.folder / "model-00001-of-00003.safetensors";
  fs::rename(shard, copy.root / "elsewhere.safetensors");
  copy.refuses("No such file");
  fs::create_symlink(copy.root / "elsewhere.safetensors", shard);
  copy.refuses("a link that leads out of the folder");
}

TEST_CASE("the links of Hugging Face's cache are followed") {
  const Copy copy;
  fs::create_directories(copy.root / "blobs");
  fs::create_directories(copy.root / "snapshots/1");
  for (const auto& entry : fs::directory_iterator(copy.folder)) {
    const std::string name = entry.path().filename().string();
    fs::rename(entry.path(), copy.root / ("blobs/blob-of-" + name));
    fs::create_symlink("../../blobs/blob-of-" + name, copy.root / ("snapshots/1/" + name));
  }
  const Run run = boosted(drawn(1));
  load(run, copy.root / "snapshots/1");
  CHECK(run.weights() == boosted(counted()).weights());
}

TEST_CASE("an index and files that do not belong together are refused by name") {
  const char* const first = "\"0.bias\": \"model-00002";
  {
    const Copy copy;
    copy.replace(first, "\"0.bias\": \"model-00001");
    copy.refuses("00001-of-00003.safetensors: tensor \"0.bias\" is missing, which the index");
  }
  {
    const Copy copy;
    copy.replace("    \"0.bias\": \"model-00002-of-00003.safetensors\",\n", "");
    copy.refuses("holds tensor \"0.bias\", which the index does not name");
  }
  {
    const Copy copy;
    copy.replace(first, "\"0.bias\": 3, \"0.bias\": \"model-00002");
    copy.refuses("model.safetensors.index.json:6:");
  }
  {
    const Copy copy;
    copy.replace("156", "157");
    copy.refuses("total_size; got 157, want 156");
  }
  {
    const Copy copy;
    copy.replace("156", "\"many\"");
    copy.refuses("total_size; got \"many\", want a number of bytes");
  }
  for (const char* text : {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})",
                           R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": {}}})"}) {
    CAPTURE(text);
    const Copy copy;
    copy.put_index(text);
    copy.refuses("model.safetensors.index.json");
  }
}

TEST_CASE("which model of a folder is meant is never guessed") {
  const TemporaryFolder root;
  const Run run = boosted(drawn(1));
  CHECK_THROWS_WITH_AS(load(run, root.path()), Contains("got 0 indexes and 0 safetensors"), Error);
  save(run, root / "a.safetensors");
  load(run, root.path());
  save(run, root / "b.safetensors");
  CHECK_THROWS_WITH_AS(load(run, root.path()), Contains("got 0 indexes and 2 safetensors"), Error);
  CHECK_THROWS_AS(load(run, root / "none"), Error);
}

TEST_CASE("saving replaces a folder of a model's files as a whole, and no other") {
  const TemporaryFolder root;
  const Run first = boosted(drawn(3)), second = boosted(drawn(4));
  save(first, root / "model", {.shard = true, .size_per_shard = bytes_64});
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    fail_file_operation(n, ENOSPC);
    try {
      save(second, root / "model", {.shard = true});
      break;
    } catch (const Error&) {
      fail_file_operation(0, 0);
      ++failures;
      const Run read = boosted(drawn(5));
      load(read, root / "model");
      CHECK((read.weights() == first.weights() || read.weights() == second.weights()));
    }
  }
  fail_file_operation(0, 0);
  CHECK(failures > 5);
  CHECK_FALSE(fs::exists(root / "model/model.safetensors.index.json"));
  root.write("model/config.json", "{}");
  CHECK_THROWS_WITH_AS(save(first, root / "model", {.shard = true}), Contains("config.json"),
                       Error);
  CHECK(root.read("model/config.json") == "{}");
  CHECK_THROWS_WITH_AS(save(first, root / "model"), Contains("want a file, or shard = true"),
                       Error);
  CHECK_THROWS_WITH_AS(save(first, root / "new", {.shard = true, .size_per_shard = 0}),
                       Contains("size_per_shard must be > 0"), Error);
  CHECK_THROWS_WITH_AS(save(first, root / "new", {.shard = true, .prefix = "../x"}),
                       Contains("prefix; got \"../x\""), Error);
}

TEST_CASE("of several models that were boosted together each has its own names") {
  const TemporaryFolder root;
  Model a = drawn(3), b = drawn(4);
  Booster booster;
  const auto group =
      booster.boost({a, b}, {SGD(a.parameters(), {.lr = 0.1}), SGD(b.parameters(), {.lr = 0.1})});
  booster.save_model(group.models[1], root / "b.safetensors");
  booster.load_model(group.models[0], root / "b.safetensors");
  CHECK(a.state_dict()[0].tensor.to_vector<float>() == b.state_dict()[0].tensor.to_vector<float>());
}

TEST_CASE("rank: model files" * doctest::skip()) {
  const World world = launch_from_env();
  const fs::path root = std::getenv("TEST_ROOT");
  const Run first = boosted(drawn(3), LowLevelZeroPlugin({}, world.group()));
  save(first, root / "model", {.shard = true, .size_per_shard = bytes_64});
  save(first, root / "model.safetensors");
  for (const char* name : {"model", "model.safetensors"}) {
    const Run second = boosted(drawn(4), LowLevelZeroPlugin({}, world.group()));
    load(second, root / name);
    CHECK(second.weights() == first.weights());
  }
  // An error on one rank is an error on all.
  const auto before = first.weights();
  CHECK_THROWS_AS(load(first, world.rank == 1 ? root / "none" : root / "model"), Error);
  CHECK(first.weights() == before);
  load(first, root / "model");
}
TEST_CASE("ranks save a model once and load it alike") {
  const TemporaryFolder root;
  CHECK(failures(Ranks("rank: model files", 2, {{"TEST_ROOT", root.path().string()}}).wait(60)) ==
        "");
}

namespace {

Model normalized_model(uint64_t seed) {
  manual_seed(seed);
  return Sequential{Conv2d(2, 3, 1), BatchNorm2d(3), Flatten(), Linear(3, 2)};
}

// Returns the model's tensors as another program would save them: renamed, without `but`.
TensorMap renamed_weights(const Model& model, const std::string& before, const std::string& but) {
  TensorMap tensors;
  for (const auto& [name, tensor] : model.state_dict())
    if (name != but) tensors.emplace(before + name, tensor.detach().clone());
  return tensors;
}

}  // namespace

TEST_CASE("files without a batch norm's count of batches load, as in PyTorch") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "old.safetensors";
  const Model old = normalized_model(1);
  save_safetensors(file, renamed_weights(old, "", "1.num_batches_tracked"));
  const Model model = normalized_model(2), plain = normalized_model(3), start = normalized_model(4);
  model(ones({2, 2, 1, 1}));  // this batch is counted
  Run run = boosted(model);
  run.booster.load_model(run.boosted.model, file);
  plain.load_state_dict(state_of(load_safetensors(file)));
  CHECK(load_start_weights(start, file).to_string() == "");
  const StateDict want = old.state_dict();
  for (const Model& loaded : {model, plain, start}) {
    const StateDict got = loaded.state_dict();
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i].name == "1.num_batches_tracked")
        CHECK(got[i].tensor.item() == (&loaded.module() == &model.module() ? 1 : 0));
      else
        CHECK(got[i].tensor.to_vector<float>() == want[i].tensor.to_vector<float>());
  }
  save_safetensors(file, renamed_weights(old, "", "1.running_mean"));
  CHECK_THROWS_WITH_AS(run.booster.load_model(run.boosted.model, file),
                       Contains("1 missing: 1.running_mean"), Error);
}

TEST_CASE("files that were saved of a wrapped model load without the wrapper's prefix") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "wrapped.safetensors";
  const Model saved = normalized_model(1);
  for (const char* wrapper : {"module.", "_orig_mod."}) {
    save_safetensors(file, renamed_weights(saved, wrapper, ""));
    const Model start = normalized_model(2);
    Run run = boosted(normalized_model(3));
    run.booster.load_model(run.boosted.model, file);
    CHECK(load_start_weights(start, file).to_string() == "");
    for (const Model& loaded : {start, run.boosted.model.unwrap()})
      for (size_t i = 0; i < saved.state_dict().size(); ++i)
        CHECK(loaded.state_dict()[i].tensor.to_vector<float>() ==
              saved.state_dict()[i].tensor.to_vector<float>());
  }
  TensorMap mixed = renamed_weights(saved, "module.", "");
  mixed.emplace("3.weight", ones({2, 3}));
  save_safetensors(file, mixed);
  Run run = boosted(normalized_model(3));
  CHECK_THROWS_WITH_AS(run.booster.load_model(run.boosted.model, file), Contains("unexpected"),
                       Error);
}
