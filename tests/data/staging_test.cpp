// Batches for a GPU equal the CPU's while the loader fills the next ones and kernels still read the
// last.
#include "core/data/loader.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/staging.h"
#include "kernels/device/memory.h"
#include "tests/data/pictures.h"
#include "tests/on_gpu.h"

#include <algorithm>

using namespace booster;
using namespace booster::test;

namespace {

// Returns all values of an epoch, images then labels. On a GPU nothing is read before the epoch
// ends; by then the loader has reused its memory.
std::vector<double> numbers_of(DataLoader& loader) {
  std::vector<Tensor> kept;
  for (const auto& [image, label] : loader) {
    kept.push_back(untracked::cast(image, DType::f64));
    kept.push_back(untracked::cast(label, DType::f64));
  }
  std::vector<double> all;
  for (const Tensor& each : kept)
    for (const double number : each.to_vector<double>()) all.push_back(number);
  return all;
}

}  // namespace

TEST_CASE("GPU: batches are the CPU's, however far the loader is ahead of the kernels" * on_gpu()) {
  const Pictures pictures(9);
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    DataLoaderOptions options = {
        .batch_size = 2, .shuffle = true, .workers = workers, .prefetch = 3};
    DataLoader there(pictures.dataset(), options);
    options.device = gpu;
    DataLoader here(pictures.dataset(), options);
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(numbers_of(here) == numbers_of(there));
  }
}

TEST_CASE("GPU: a batch without its bad images is copied, too" * on_gpu()) {
  const Pictures pictures(4);
  pictures.folder().write("dog/image_0002.jpg", "no image");
  DataLoaderOptions options = {.batch_size = 4, .workers = 1, .on_bad_image = BadImagePolicy::skip};
  DataLoader there(pictures.dataset(), options);
  options.device = gpu;
  DataLoader here(pictures.dataset(), options);
  CHECK(numbers_of(here) == numbers_of(there));
}

TEST_CASE("GPU: batches use the same memory again, and outlive their loader" * on_gpu()) {
  const Pictures pictures(8);
  Tensor last;
  {
    DataLoader loader(pictures.dataset(), {.batch_size = 2, .workers = 0, .device = gpu});
    const auto epoch = [&] {
      for (const auto& [image, label] : loader) last = untracked::cast(image, DType::f32);
      kernels::device_synchronize(gpu);
    };
    epoch();
    const int64_t before = allocator_stats().system_allocations;
    epoch();
    CHECK(allocator_stats().system_allocations == before);
    for (const auto& [image, label] : loader) last = image;
  }
  const Tensor copy = last.to({});
  empty_cache();
  CHECK(last.to_vector<float>() == copy.to_vector<float>());
  last = Tensor();
  empty_cache();
}

TEST_CASE("GPU: memory is filled again when its copy is done, not before" * on_gpu()) {
  Staging staging(gpu);
  std::vector<Tensor> copies;
  for (int i = 0; i < 30; ++i) {
    Tensor filled = staging.to_fill({500}, DType::f32);
    std::fill_n(filled.data<float>(), 500, static_cast<float>(i));
    const Tensor there = staging.on_device(filled);
    copies.push_back(untracked::cast(there, DType::f64));
  }
  for (int i = 0; i < 30; ++i)
    CHECK(copies[static_cast<size_t>(i)].to_vector<double>() == std::vector<double>(500, i));
}
