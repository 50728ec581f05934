// Batches that a GPU makes from decoded images have the same bits as the CPU's transforms, from
// every source of bytes.
#include "core/data/gpu/gpu_batch.h"

#include "core/data/gpu/gpu_image_cache.h"
#include "core/data/images/image_plan.h"
#include "core/data/transforms/transforms.h"
#include "core/tensor/memory/allocator.h"
#include "kernels/catalogue.h"
#include "tests/data/pictures.h"
#include "tests/on_gpu.h"

#include <filesystem>
#include <functional>

using namespace booster;
using namespace booster::test;

namespace {

Image noise(int width, int height, int channels, RandomStream& random) {
  Image image(width, height, channels);
  for (size_t i = 0; i < image.bytes(); ++i)
    image.data()[i] = static_cast<uint8_t>(random.below(256));
  return image;
}

Interpolation interpolation(RandomStream& random) {
  return random.below(2) ? Interpolation::bicubic : Interpolation::bilinear;
}

// Returns a random chain that ends in this size, with both common and unusual combinations.
// `in_bytes`: part of it cannot be deferred and changes pixels on the host.
Compose drawn_chain(ImageSize size, bool in_bytes, RandomStream& random) {
  const auto maybe = [&] { return random.below(2) == 0; };
  const auto side = [&] { return static_cast<int>(1 + random.below(70)); };
  Compose chain;
  const auto add = [&](auto transform) {
    chain.add(std::make_shared<decltype(transform)>(std::move(transform)));
  };
  if (maybe()) add(Resize(side(), {.interpolation = interpolation(random)}));
  if (in_bytes && random.below(4) == 0) add(RandomHorizontalFlip());
  if (random.below(4) == 0) add(Resize(ImageSize(side(), side())));
  if (in_bytes && random.below(4) == 0) add(ColorJitter({.brightness = 0.5}));
  if (in_bytes && random.below(6) == 0) add(CenterCrop(ImageSize(side(), side())));
  if (!in_bytes || random.below(4) > 0)
    add(RandomResizedCrop(size, {.interpolation = interpolation(random)}));
  else
    add(CenterCrop(size));
  if (maybe()) add(RandomHorizontalFlip());
  const bool grey_first = maybe();
  if (grey_first) add(Gray2RGB());
  add(ToTensor());
  if (!grey_first) add(Gray2RGB());
  if (maybe()) add(Normalize({0.48, 0.45, 0.4}, {0.22, 0.23, 0.24}));
  if (random.below(4) == 0)
    add(RandomErasing({.p = 1,
                       .mode = static_cast<ErasingMode>(random.below(3)),
                       .max_count = static_cast<int>(1 + random.below(3))}));
  if (random.below(4) == 0) add(Normalize({0.1}, {2}));
  return chain;
}

// An image in a GPU's cache, which is not decoded again.
class Kept : public StoredImage {
 public:
  Kept(GpuImageCache& cache, size_t file, const Image& image)
      : kept_(*cache.offer(file, image)), device_(cache.device()) {}
  int width() const override { return kept_.width; }
  int height() const override { return kept_.height; }
  int channels() const override { return kept_.channels; }
  std::shared_ptr<const Image> pixels() const override {
    FAIL("an image that lies on the GPU is decoded");
    return nullptr;
  }
  const uint8_t* on(Device device) const override {
    return device == device_ ? kept_.address : nullptr;
  }

 private:
  GpuImageCache::Kept kept_;
  Device device_;
};

// Compares batches of random images and chains, made by the CPU and by `batch`. `source` makes lazy
// images from decoded ones.
template <class Source>
void compare_batches(Device device, const Staging* staging, int batches, bool in_bytes,
                     Source&& source) {
  for (int number = 0; number < batches; ++number) {
    CAPTURE(number);
    RandomStream random(17, 0, static_cast<uint64_t>(number));
    const ImageSize size(static_cast<int>(1 + random.below(40)),
                         static_cast<int>(1 + random.below(40)));
    const int64_t n = 1 + random.below(5);
    GpuBatch batch(device, n + 1);  // one position has a bad image
    const int64_t bad = random.below(n + 1);
    std::vector<float> want;
    for (int64_t position = 0; position <= n; ++position) {
      const int channels = random.below(3) ? 3 : 1;
      const Image image = noise(static_cast<int>(1 + random.below(90)),
                                static_cast<int>(1 + random.below(90)), channels, random);
      if (position == bad) continue;
      const Compose chain = drawn_chain(size, in_bytes, random);
      RandomStream own(18, static_cast<uint64_t>(number), static_cast<uint64_t>(position));
      RandomStream again = own;
      LazyImage here = lazy(image), there = source(image);
      chain.apply(here, own);
      chain.apply(there, again);
      const size_t begin = want.size();
      want.resize(begin + static_cast<size_t>(3) * size.height * size.width);
      here.write(want.data() + begin);
      batch.set(position, there);
    }
    batch.pack(staging);
    const Tensor got = batch.tensor(staging);
    CHECK(got.shape() == Shape{n, 3, size.height, size.width});
    CHECK(got.to_vector<float>() == want);
  }
}

}  // namespace

TEST_CASE("a batch made by the kernel has the bits of its images, on every CPU variant") {
  const std::string before = kernels::cpu_variant();
  for (const std::string& variant : kernels::cpu_variants()) {
    CAPTURE(variant);
    kernels::force_cpu_variant(variant);
    compare_batches({}, nullptr, 200, true, lazy);
  }
  kernels::force_cpu_variant(before);
}

TEST_CASE("GPU: a batch of images that travel with it has the CPU's bits" * on_gpu()) {
  const Staging staging(gpu);
  compare_batches(gpu, &staging, 60, true, lazy);
}

TEST_CASE("GPU: a batch of images that lie there already has the CPU's bits" * on_gpu()) {
  const Staging staging(gpu);
  GpuImageCache cache(gpu, size_t{8} << 20, 1000);
  size_t file = 0;
  compare_batches(gpu, &staging, 60, false, [&](const Image& image) {
    return LazyImage(std::make_shared<Kept>(cache, file++, image), nullptr, "kept");
  });
}

TEST_CASE("GPU: an image is not kept before kernels have left the memory for it" * on_gpu()) {
  constexpr int64_t bytes = int64_t{1} << 15;
  const Staging staging(gpu);
  for (int i = 0; i < 5; ++i) {
    empty_cache();
    {
      Tensor busy = empty({bytes}, {DType::u8, gpu});
      for (int k = 0; k < 3; ++k) busy.fill_(0);
    }
    GpuImageCache cache(gpu, bytes, 1);  // gets that memory
    const Image image = gradient(60, 50, 3, i);
    const Compose chain{ToTensor(), Gray2RGB()};
    RandomStream random(1, 2, 3);
    LazyImage here = lazy(image), there(std::make_shared<Kept>(cache, 0, image), nullptr, "kept");
    chain.apply(here, random);
    chain.apply(there, random);
    GpuBatch batch(gpu, 1);
    batch.set(0, there);
    batch.pack(&staging);
    std::vector<float> want(3 * 60 * 50);
    here.write(want.data());
    CHECK(batch.tensor(&staging).to_vector<float>() == want);
  }
}

TEST_CASE("GPU: a cache keeps what there is room for, each image once" * on_gpu()) {
  const Image image = gradient(100, 100, 3);
  GpuImageCache cache(gpu, 100'000, 5);
  CHECK_FALSE(cache.find(2));
  for (const size_t file : {2u, 0u, 4u}) CHECK(cache.offer(file, image));
  const auto kept = cache.find(0);
  REQUIRE(kept);
  CHECK(kept->width == 100);
  CHECK(kept->channels == 3);
  CHECK(cache.offer(0, image)->address == kept->address);
  CHECK_FALSE(cache.offer(1, image));
  CHECK_FALSE(cache.find(1));
  CHECK(cache.offer(1, gradient(10, 10, 3)));  // a small one still fits
}

namespace {

// Loads two epochs of these images in batches on the GPU; calls `after_first` in between.
std::vector<float> two_epochs(const Pictures& pictures, const Compose& transform,
                              size_t device_cache_bytes, Device device,
                              const std::function<void()>& after_first) {
  const ImageFolder images(
      pictures.folder().path(),
      {.transform = transform, .device = device, .device_cache_bytes = device_cache_bytes});
  DataLoader loader(images, {.batch_size = 4, .shuffle = true, .workers = 2, .device = device});
  std::vector<float> all;
  for (int i = 0; i < 2; ++i) {
    for (const auto& numbers : epoch(loader)) all.insert(all.end(), numbers.begin(), numbers.end());
    if (i == 0) after_first();
  }
  return all;
}

void nothing() {}

}  // namespace

TEST_CASE("GPU: images that are kept there are decoded once, by the CPU's numbers" * on_gpu()) {
  const Pictures pictures(9);
  const auto want = two_epochs(pictures, augmented, 0, {}, nothing);
  const auto remove = [&] {
    for (const auto& name : {"cat", "dog"}) {
      std::filesystem::remove_all(pictures.folder() / name);
      std::filesystem::create_directory(pictures.folder() / name);
    }
  };
  CHECK(two_epochs(pictures, augmented, 1 << 20, gpu, remove) == want);
}

TEST_CASE("GPU: batches are the CPU's whatever fits into the cache" * on_gpu()) {
  const Pictures pictures(9);
  const Compose jittered{ColorJitter({.brightness = 0.5}), augmented};
  const auto want = two_epochs(pictures, augmented, 0, {}, nothing);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{12'000}})
    CHECK(two_epochs(pictures, augmented, bytes, gpu, nothing) == want);
  CHECK(two_epochs(pictures, jittered, 1 << 20, gpu, nothing) ==
        two_epochs(pictures, jittered, 0, {}, nothing));
}

TEST_CASE("GPU: images kept for a GPU can be read on the host" * on_gpu()) {
  const Pictures pictures(3);
  const ImageFolder images(pictures.folder().path(),
                           {.transform = augmented, .device = gpu, .device_cache_bytes = 1 << 20});
  DataLoader there(images, {.batch_size = 6, .device = gpu});
  DataLoader here(images, {.batch_size = 6});
  const auto want = epoch(here);
  CHECK(epoch(there) == want);
  DataLoader again(images, {.batch_size = 6});
  CHECK(epoch(again) == want);
}
