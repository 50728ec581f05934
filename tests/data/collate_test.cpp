// Samples of named tensors and of different lengths become batches.
#include "core/data/loader.h"
#include "core/data/transforms/transforms.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace booster::testing::collate {
namespace {

// Sample i has 1 + i % 5 tokens, all of number i, a mask of ones and two scores.
class Texts : public Dataset {
 public:
  explicit Texts(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Sample load(int64_t index, RandomStream& random) const override {
    if (index == bad) fail_data("sample {} cannot be read", index);
    const int64_t length = lengths ? 1 + index % 5 : 3;
    const auto number = static_cast<double>(index);
    const Tensor tokens = full({length}, number, {.dtype = DType::i64}),
                 mask = ones({length}, {.dtype = DType::boolean}),
                 noise = full({2}, random.uniform());
    if (index == without_mask) return Sample::named({{"tokens", tokens}}, {});
    if (index == without_names) return {tokens, index};
    return Sample::named({{"tokens", tokens}, {"mask", mask}},
                         {{"scores", noise}, {"label", full({}, number, {.dtype = DType::i64})}});
  }
  bool lengths = true;
  int64_t bad = -1, without_mask = -1, without_names = -1;

 private:
  int64_t size_;
};

DataLoaderOptions padded(DataLoaderOptions options) {
  options.collate = pad_to_longest({{"tokens", -7}, {"mask", 0}});
  return options;
}

std::string text_of(const Batch& batch) {
  std::string text;
  for (const auto& all : {batch.inputs(), batch.targets()})
    for (const auto& [name, tensor] : all) {
      text += name + tensor.shape().to_string() + ":";
      for (const double number : tensor.to_vector<double>()) text += std::to_string(number) + ",";
    }
  return text;
}

std::string error_with(const Texts& texts, const DataLoaderOptions& options) {
  return error_of([&] {
    DataLoader loader(texts, options);
    for (Batch& batch : loader) text_of(batch);
  });
}

}  // namespace

TEST_CASE("named samples are stacked by name") {
  Texts texts(4);
  texts.lengths = false;
  DataLoader loader(texts, {.batch_size = 4});
  for (const Batch& batch : loader) {
    CHECK(batch.inputs().names() == "tokens, mask");
    CHECK(batch.targets().names() == "scores, label");
    CHECK(batch["mask"].dtype() == DType::boolean);
    CHECK(batch["tokens"].shape() == Shape{4, 3});
    CHECK(batch["label"].to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 3});
    CHECK_FALSE(batch.image.defined());
    CHECK(contains(error_of([&] { batch["tokns"]; }), "did you mean tokens?"));
  }
}

TEST_CASE("a pair binds to image and label of batches, copies and constants") {
  Batch batch = {ones({2}), zeros({2})};
  auto& [image, label] = batch;
  image.fill_(3);
  CHECK(batch.image.to_vector<float>()[0] == 3);
  const Batch constant = batch;
  const auto& [same_image, same_label] = constant;
  CHECK(same_image.same_body(batch.image));
  auto [copied_image, copied_label] = constant;
  CHECK(copied_label.same_body(label));
  CHECK(batch.inputs().only().same_body(image));
  CHECK(batch.targets().only().same_body(label));
}

TEST_CASE("padded batches are the same bits with any workers, and after a resume") {
  for (const unsigned seed : draws(110)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Texts texts(1 + static_cast<int64_t>(random() % 20));
    const DataLoaderOptions options = padded({.batch_size = 1 + static_cast<int64_t>(random() % 5),
                                              .shuffle = random() % 2 == 0,
                                              .workers = static_cast<int>(random() % 4),
                                              .seed = seed});
    DataLoaderOptions alone = options;
    alone.workers = 0;
    DataLoader loader(texts, options), other(texts, alone), resumed(texts, options);
    std::vector<std::string> got, want, rest;
    const auto stop = static_cast<size_t>(random() % 3);
    LoaderState at;
    for (const Batch& batch : loader) {
      got.push_back(text_of(batch));
      if (got.size() == stop) at = loader.state();
      const Tensor tokens = batch["tokens"], mask = batch["mask"];
      const auto ids = tokens.to_vector<int64_t>();
      const auto seen = mask.to_vector<int64_t>();
      const auto numbers = batch["label"].to_vector<int64_t>();
      int64_t longest = 0;
      for (const int64_t number : numbers) longest = std::max(longest, 1 + number % 5);
      REQUIRE(tokens.shape() == Shape{static_cast<int64_t>(numbers.size()), longest});
      for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t number = numbers[i / static_cast<size_t>(longest)];
        const bool is_text = static_cast<int64_t>(i) % longest < 1 + number % 5;
        CHECK(ids[i] == (is_text ? number : -7));
        CHECK(seen[i] == is_text);
      }
    }
    for (const Batch& batch : other) want.push_back(text_of(batch));
    CHECK(got == want);
    if (at.batch == 0) continue;
    resumed.load_state(at);
    for (const Batch& batch : resumed) rest.push_back(text_of(batch));
    CHECK(rest == std::vector<std::string>(got.begin() + static_cast<int64_t>(stop), got.end()));
  }
}

TEST_CASE("errors about samples that do not fit name the tensor, and do not speak of images") {
  Texts texts(6);
  CHECK(
      error_with(texts, {.batch_size = 3, .workers = 0}) ==
      "DataLoader: samples of one batch differ in the shape of tokens; got (2,) and (1,), want the "
      "same, or .collate = pad_to_longest(...) (core/data/loader.h)");
  CHECK(error_with(texts, padded({.batch_size = 3})) == "");
  texts.without_mask = 2;
  CHECK(contains(error_with(texts, padded({.batch_size = 3})),
                 "different names; got tokens and tokens, mask"));
  texts.without_mask = -1;
  texts.without_names = 2;
  CHECK(contains(error_with(texts, padded({.batch_size = 3, .workers = 0})), "different names"));
  texts.lengths = false;
  CHECK(contains(error_with(texts, {.batch_size = 3, .workers = 0}), "differ in kind"));
  texts.without_names = 0;
  CHECK(contains(error_with(texts, {.batch_size = 3, .workers = 0}), "differ in kind"));
  DataLoaderOptions options = {.batch_size = 3, .collate = pad_to_longest({{"tokns", 0}})};
  CHECK(contains(error_with(Texts(3), options),
                 "pad_to_longest: no such tensor in the samples; got tokns; want one of tokens, "
                 "mask, scores, label (did you mean tokens?)"));
  CHECK(contains(error_of([] { pad_to_longest({}); }), "no names"));
  CHECK(contains(error_of([] { Sample::named({}, {}); }), "inputs have no names; got none"));
  CHECK(contains(error_of([] {
                   Sample::named({{"x", ones({1})}}, {{"x", ones({1})}});
                 }),
                 "the same name"));
}

TEST_CASE("bad samples are left out of a padded batch") {
  Texts texts(5);
  texts.bad = 1;
  CHECK(contains(error_with(texts, padded({.batch_size = 5})), "sample 1 cannot be read"));
  DataLoader loader(texts, padded({.batch_size = 5, .on_bad_image = BadImagePolicy::skip}));
  for (const Batch& batch : loader)
    CHECK(batch["label"].to_vector<int64_t>() == std::vector<int64_t>{0, 2, 3, 4});
  CHECK(loader.bad_images().size() == 1);
}

TEST_CASE("samples without names are padded as image and label, and own functions make batches") {
  class Rows : public Dataset {
   public:
    int64_t size() const override { return 3; }
    Sample load(int64_t index, RandomStream&) const override { return {ones({index + 1}), index}; }
  };
  DataLoader loader(Rows(), {.batch_size = 3, .collate = pad_to_longest({{"image", 0}})});
  for (auto& [image, label] : loader) {
    CHECK(image.to_vector<float>() == std::vector<float>{1, 0, 0, 1, 1, 0, 1, 1, 1});
    CHECK(label.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  }
  const Collate sums = [](const std::vector<Sample>& samples) {
    std::vector<float> all;
    for (const Sample& sample : samples)
      all.push_back(static_cast<float>(sample.inputs().only().numel()));
    const auto n = static_cast<int64_t>(all.size());
    return Batch{from_vector(all, {n}), zeros({n})};
  };
  DataLoader own(Rows(), {.batch_size = 2, .collate = sums});
  CHECK(own.begin()->image.to_vector<float>() == std::vector<float>{1, 2});
}

// Returns the batches' padding: the sum of what each of its samples lacks to the longest.
int64_t padding_of(const std::vector<int64_t>& order, const std::vector<int64_t>& lengths,
                   int64_t batch) {
  int64_t padding = 0;
  for (size_t first = 0; first < order.size(); first += static_cast<size_t>(batch)) {
    const size_t end = std::min(order.size(), first + static_cast<size_t>(batch));
    int64_t longest = 0;
    const auto length = [&](size_t i) { return lengths[static_cast<size_t>(order[i])]; };
    for (size_t i = first; i < end; ++i) longest = std::max(longest, length(i));
    for (size_t i = first; i < end; ++i) padding += longest - length(i);
  }
  return padding;
}

TEST_CASE("buckets by length visit each sample once, pad less, and differ between epochs") {
  for (const unsigned seed : draws(220)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<int64_t> lengths(40 + random() % 60);
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 100);
    const auto count = static_cast<int64_t>(lengths.size());
    const int ranks = 1 + static_cast<int>(random() % 3);
    BucketOptions options = {.batch_size = 1 + static_cast<int64_t>(random() % 4),
                             .batches_per_bucket = 3 + static_cast<int64_t>(random() % 20),
                             .world_size = ranks,
                             .shuffle = random() % 4 > 0,
                             .seed = seed,
                             .drop_last = random() % 2 == 0};
    std::vector<std::vector<int64_t>> shares;
    for (; options.rank < ranks; ++options.rank) {
      const auto sampler = bucket_by_length(lengths, options);
      shares.push_back(sampler->indices(seed));
      CHECK(sampler->size() == static_cast<int64_t>(shares.back().size()));
      CHECK(sampler->indices(seed) == shares.back());
      bool differs = false;
      for (unsigned later = 1; later < 9; ++later)
        differs = differs || sampler->indices(seed + later) != shares.back();
      CHECK(differs == options.shuffle);
    }
    std::vector<int64_t> all;  // in the order of all ranks' batches
    std::vector<int> times(lengths.size());
    for (size_t i = 0; i < shares[0].size(); ++i)
      for (const auto& share : shares) {
        all.push_back(share[i]);
        ++times[static_cast<size_t>(share[i])];
      }
    const auto size = static_cast<int64_t>(all.size());
    CHECK(size == (options.drop_last ? count / ranks : (count + ranks - 1) / ranks) * ranks);
    const auto seen = std::ranges::count_if(times, [](int n) { return n > 0; });
    CHECK(seen == std::min(size, count));
    const int64_t batch = options.batch_size * ranks;
    if (batch > 1) {
      const auto plain = RandomSampler(count, seed).indices(seed);
      CHECK(padding_of(all, lengths, batch) < padding_of(plain, lengths, batch));
    }
  }
}

TEST_CASE("one bucket of everything pads as little as sorted samples do") {
  const std::vector<int64_t> lengths = {5, 1, 4, 1, 5, 9, 2, 6};
  const auto order = bucket_by_length(lengths, {.batch_size = 2, .shuffle = true})->indices(3);
  CHECK(padding_of(order, lengths, 2) == 0 + 2 + 0 + 3);
  CHECK(bucket_by_length(lengths, {.shuffle = false})->indices(0) ==
        std::vector<int64_t>{1, 3, 6, 2, 0, 4, 7, 5});
  DataLoader loader(Texts(5), {.batch_size = 2,
                               .sampler = bucket_by_length({1, 2, 3, 4, 5}, {.batch_size = 2}),
                               .collate = pad_to_longest({{"tokens", 0}, {"mask", 0}})});
  for (const Batch& batch : loader)
    CHECK(std::ranges::count(batch["mask"].to_vector<int64_t>(), 0) <= 1);
  CHECK(contains(error_of([] { bucket_by_length({}, {}); }), "the dataset is empty"));
  CHECK(contains(error_of([] { bucket_by_length({1}, {.batch_size = 0}); }), "batch_size 0"));
  CHECK(contains(error_of([] { bucket_by_length({1}, {.rank = 2}); }), "rank out of range"));
  CHECK(contains(error_of([] { bucket_by_length({1}, {.world_size = 2, .drop_last = true}); }),
                 "too few samples for 2 ranks"));
}

TEST_CASE("a transform of images refuses batches of named tensors by one sentence") {
  Texts texts(4);
  texts.lengths = false;
  DataLoader loader(texts, {.batch_size = 2,
                            .workers = 0,
                            .batch_transform = std::make_shared<Mixup>(
                                MixupOptions{.mixup_alpha = 1, .num_classes = 4})});
  CHECK(contains(error_of([&] { loader.begin(); }),
                 "Mixup: mixes images and their labels; got a "
                 "batch of named tensors (tokens, mask)"));
}

}  // namespace booster::testing::collate
