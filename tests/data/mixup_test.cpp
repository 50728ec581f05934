// mixup and CutMix against timm: batches for given draws, and the distribution of the draws.
#include "core/data/transforms/transforms.h"

#include "core/data/loader.h"
#include "tests/capture_part.h"
#include "tests/data/drawn.h"
#include "tests/error_of.h"

#include <algorithm>
#include <set>

using namespace booster;
using namespace booster::test;

namespace {

Mixup::Mix mix_of(const Json& golden) {
  Mixup::Mix mix{.lam = golden["lam"]};
  if (const Json& box = golden["box"]; !box.is_null())
    mix.box = Box{box[0], box[1], box[2], box[3]};
  return mix;
}

MixupOptions mixup_options(const Json& golden) {
  MixupOptions options;
  options.mixup_alpha = golden.value("mixup_alpha", 1.0);
  options.cutmix_alpha = golden.value("cutmix_alpha", 0.0);
  options.prob = golden.value("prob", 1.0);
  options.switch_prob = golden.value("switch_prob", 0.5);
  if (golden.contains("cutmix_minmax"))
    options.cutmix_minmax = {golden["cutmix_minmax"][0], golden["cutmix_minmax"][1]};
  return options;
}

// Returns `n` samples whose pixels equal their index, labelled 0, 1, 2, 0, ...
TensorDataset numbered(int64_t n) {
  const Tensor images = zeros({n, 1, 4, 4});
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    untracked::select(images, 0, i).fill_(static_cast<double>(i));
    labels.push_back(i % 3);
  }
  return {images, from_vector(labels, {n})};
}

std::vector<float> all_of(DataLoader& loader) {
  std::vector<float> all;
  for (auto& [image, label] : loader)
    for (const Tensor& part : {image, label})
      for (const float value : part.to_vector<float>()) all.push_back(value);
  return all;
}

const auto both =
    std::make_shared<Mixup>(MixupOptions{.mixup_alpha = 0.8, .cutmix_alpha = 1, .num_classes = 3});

}  // namespace

TEST_CASE("mixup and CutMix make timm's batches of given shares and rectangles") {
  const Json all = golden_json("mixup");
  for (const Json& golden : all["cases"]) {
    CAPTURE(golden["lam"].dump());
    CAPTURE(golden["box"].dump());
    const Tensor image = from_vector(golden["image"].get<std::vector<float>>(),
                                     Shape(golden["shape"].get<std::vector<int64_t>>()));
    Mixup::mix(image, mix_of(golden));
    CHECK(largest_difference(image, golden["mixed"]) < 1e-6);
    const Mixup mixup({.label_smoothing = golden["smoothing"], .num_classes = golden["classes"]});
    const auto labels = golden["label"].get<std::vector<int64_t>>();
    const Tensor label = from_vector(labels, {static_cast<int64_t>(labels.size())});
    CHECK(largest_difference(mixup.targets(label, golden["lam"]), golden["target"]) < 1e-7);
  }
}

TEST_CASE("mixup and CutMix of pairs and of samples make timm's batches") {
  for (const Json& golden : golden_json("mixup_modes")) {
    CAPTURE(golden["mixes"].dump());
    const Tensor image = from_vector(golden["image"].get<std::vector<float>>(),
                                     Shape(golden["shape"].get<std::vector<int64_t>>()));
    std::vector<Mixup::Mix> mixes;
    for (const Json& mix : golden["mixes"]) mixes.push_back(mix_of(mix));
    Mixup::mix(image, mixes);
    CHECK(largest_difference(image, golden["mixed"]) < 1e-6);
    const Mixup mixup({.label_smoothing = golden["smoothing"], .num_classes = golden["classes"]});
    const auto labels = golden["label"].get<std::vector<int64_t>>();
    const Tensor label = from_vector(labels, {static_cast<int64_t>(labels.size())});
    CHECK(largest_difference(mixup.targets(label, mixes), golden["target"]) < 1e-7);
  }
}

TEST_CASE("a mode says how many draws a batch gets") {
  const auto shares = [](MixupMode mode, int64_t n) {
    const Mixup mixup({.mode = mode, .num_classes = 3});
    RandomStream random(5, 6, 7);
    std::vector<double> all;
    for (const auto& mix : mixup.draw(n, 8, 8, random)) all.push_back(mix.lam);
    return all;
  };
  for (const int64_t n : {1, 6, 7}) {
    CAPTURE(n);
    const auto batch = shares(MixupMode::batch, n), pairs = shares(MixupMode::pair, n),
               each = shares(MixupMode::elem, n);
    const auto distinct = [](const std::vector<double>& all) {
      return std::set<double>(all.begin(), all.end()).size();
    };
    CHECK(distinct(batch) == 1);
    CHECK(distinct(each) == static_cast<size_t>(n));
    CHECK(std::equal(pairs.begin(), pairs.end(), pairs.rbegin()));
    CHECK(distinct(pairs) == static_cast<size_t>((n + 1) / 2));
    if (n % 2 == 1) CHECK(pairs[static_cast<size_t>(n / 2)] == 1);
  }
}

TEST_CASE("from off_epoch on batches are as they were, and labels only smoothed") {
  const auto mixup =
      std::make_shared<Mixup>(MixupOptions{.label_smoothing = 0, .num_classes = 3, .off_epoch = 1});
  DataLoader mixing(numbered(6), {.batch_size = 6, .workers = 0, .batch_transform = mixup});
  const auto first = all_of(mixing), second = all_of(mixing), third = all_of(mixing);
  CHECK(first != second);
  CHECK(second == third);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(second[16 * i] == static_cast<float>(i));
    CHECK(second[6 * 16 + 3 * i + i % 3] == 1);
  }
}

TEST_CASE("mixup and CutMix draw as often and as much as timm") {
  constexpr int draws = 40000;
  const Json all = golden_json("mixup");
  for (const Json& golden : all["draws"]) {
    CAPTURE(golden.dump());
    const Mixup mixup(mixup_options(golden["options"]));
    Moments shares, cuts;
    int whole = 0;
    for (uint64_t i = 0; i < draws; ++i) {
      RandomStream random(1, 2, i);
      const auto mix = mixup.draw(golden["width"], golden["height"], random);
      if (mix.lam == 1 && !mix.box)
        ++whole;
      else
        (mix.box ? cuts : shares).add(mix.lam);
    }
    check_rate(whole, draws, golden["whole"]);
    check_rate(cuts.count(), draws, golden["cutmix"]);
    if (!golden["mixup_lam"].is_null()) shares.check_like(golden["mixup_lam"]);
    if (!golden["cutmix_lam"].is_null()) cuts.check_like(golden["cutmix_lam"]);
  }
}

TEST_CASE("numbers of Beta have its mean and deviation, also where doubles nearly end") {
  for (const auto& [a, b] :
       {std::pair(0.2, 0.2), {1.0, 1.0}, {2.0, 5.0}, {0.01, 0.01}, {30.0, 3.0}}) {
    CAPTURE_PART(a);
    Moments moments;
    for (uint64_t i = 0; i < 20000; ++i) {
      RandomStream random(3, 4, i);
      const double x = random.beta(a, b);
      REQUIRE((x >= 0 && x <= 1));
      moments.add(x);
    }
    moments.check_like({a / (a + b), std::sqrt(a * b / (a + b + 1)) / (a + b)});
  }
}

TEST_CASE("mixed batches are the same with any workers, after a resume, and others each time") {
  const auto options = [](int workers) {
    return DataLoaderOptions{
        .batch_size = 6, .shuffle = true, .workers = workers, .batch_transform = both};
  };
  DataLoader alone(numbered(20), options(0)), threads(numbered(20), options(3));
  const auto first = all_of(alone), second = all_of(alone);
  CHECK(first != second);
  CHECK(all_of(threads) == first);
  DataLoader resumed(numbered(20), options(2));
  resumed.load_state({1, 2});
  const auto rest = all_of(resumed);
  CHECK(std::equal(rest.rbegin(), rest.rend(), second.rbegin()));
}

TEST_CASE("ranks mix their batches with numbers of their own") {
  const auto of_rank = [](int rank) {
    // Both ranks see the same samples, so that only the mixing differs.
    DataLoader loader(numbered(6), {.batch_size = 6,
                                    .rank = rank,
                                    .world_size = 2,
                                    .batch_transform = both,
                                    .sampler = std::make_shared<SequentialSampler>(6)});
    return all_of(loader);
  };
  CHECK(of_rank(0) == of_rank(0));
  CHECK(of_rank(0) != of_rank(1));
}

TEST_CASE("a mixed target is a distribution, and an odd batch's middle sample stays its own") {
  const Mixup mixup({.label_smoothing = 0.2, .num_classes = 4});
  const std::vector<float> rows =
      mixup.targets(from_vector(std::vector<int64_t>{3, 1, 0}, {3}), 0.25).to_vector<float>();
  for (size_t row = 0; row < 3; ++row)
    CHECK(rows[4 * row] + rows[4 * row + 1] + rows[4 * row + 2] + rows[4 * row + 3] ==
          doctest::Approx(1).epsilon(1e-6));
  CHECK(rows[4 * 1 + 1] == doctest::Approx(0.85));
}

TEST_CASE("mixup refuses what it cannot mix") {
  CHECK(error_of([] { Mixup({.mixup_alpha = 0}); }) ==
        "Mixup: mixup and CutMix are both off; got mixup_alpha 0 and cutmix_alpha 0, want one of "
        "them above 0");
  CHECK(error_of([] { Mixup({.prob = 1.5}); }) == "Mixup: prob out of range; got 1.5, want 0 to 1");
  CHECK(error_of([] {
          Mixup({.cutmix_minmax = {{0.5, 0.2}}});
        }) == "Mixup: cutmix_minmax out of range; got 0.5 and 0.2, want 0 <= min < max <= 1");
  CHECK(error_of([] {
          both->targets(from_vector(std::vector<int64_t>{0, 7}, {2}), 0.5);
        }) == "Mixup: label is not a class; got 7 in row 1, want 0 to 2");
  CHECK(error_of([] {
          both->targets(zeros({2, 3}), 0.5);
        }) == "Mixup: wrong labels; got f32 (2, 3), want class numbers (n,)");
  CHECK(error_of([] {
          Mixup::mix(zeros({2, 3}), {.lam = 0.5, .box = Box{0, 0, 1, 1}});
        }) ==
        "Mixup: wrong shape for CutMix; got (2, 3), want images (n, channels, height, width)");
}
