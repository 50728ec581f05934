#include "core/data/gpu/gpu_batch.h"

#include "kernels/catalogue.h"
#include "platform/error.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace booster {
namespace {

using kernels::ImageBytes;
using kernels::ImageErasure;
using kernels::ImagePass;
using kernels::ImagePlace;
using kernels::ImageResult;

constexpr int64_t alignment = 16;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Rounds sizes up, so that batches, which need similar amounts of memory, have few distinct sizes
// and reuse it.
int64_t rounded_up(int64_t bytes) {
  constexpr uint64_t least = uint64_t{1} << 16;
  return static_cast<int64_t>(std::bit_ceil(std::max(static_cast<uint64_t>(bytes), least)));
}

// Lays out data in memory of unknown size: first collects all parts, then copies them.
class Layout {
 public:
  // Adds data, which must live until write().
  template <class Numbers>
  ImageBytes add(const Numbers& numbers) {
    const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(numbers[0]));
    return add_rows(numbers.data(), bytes, bytes, 1);
  }
  // Adds rows that are `stride` bytes apart; they become dense.
  ImageBytes add_rows(const void* data, int64_t row_bytes, int64_t stride, int64_t rows) {
    const int64_t at = std::exchange(size_, size_ + aligned(row_bytes * rows));
    if (row_bytes > 0)
      parts_.push_back({at, static_cast<const char*>(data), row_bytes, stride, rows});
    return {ImagePlace::upload, at};
  }
  int64_t size() const { return size_; }
  void write(char* to) const {
    for (const auto& [at, data, row_bytes, stride, rows] : parts_)
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(to + at + row * row_bytes, data + row * stride, static_cast<size_t>(row_bytes));
  }

 private:
  struct Part {
    int64_t at;
    const char* data;
    int64_t row_bytes, stride, rows;
  };
  int64_t size_ = 0;
  std::vector<Part> parts_;
};

// The tables of a batch. A round's passes read the previous round's output.
class Tables {
 public:
  Tables(size_t images, size_t rounds)
      : passes(images * rounds), results(images), largest(rounds), erasures_(images) {}

  // Adds an image. `plan` must live until the layout is written.
  void add(size_t image, const ImagePlan& plan, const uint8_t* address) {
    Picture picture = source(plan, address);
    for (size_t round = 0; round < plan.passes.size(); ++round)
      picture = add_pass(round * results.size() + image, plan.passes[round], picture,
                         plan.source_channels, largest[round]);
    results[image] = {.in = picture.begin,
                      .in_row_bytes = picture.row_bytes,
                      .channels = plan.source_channels,
                      .is_flipped = plan.is_flipped,
                      .values = values_of(plan),
                      .erasures = erasures_of(plan, erasures_[image]),
                      .erasure_count = static_cast<int64_t>(plan.erased.size())};
  }

  Layout layout;
  std::vector<ImagePass> passes;
  std::vector<ImageResult> results;
  std::vector<int64_t> largest;
  int64_t scratch_bytes = 0;

 private:
  struct Picture {
    ImageBytes begin;
    int64_t row_bytes;
  };

  Picture source(const ImagePlan& plan, const uint8_t* address) {
    const int64_t row_bytes = int64_t{plan.source_width} * plan.source_channels;
    const int64_t begin = plan.part.top * row_bytes + plan.part.left * plan.source_channels;
    if (address) return {{ImagePlace::address, std::bit_cast<int64_t>(address) + begin}, row_bytes};
    const int64_t part_bytes = int64_t{plan.part.width} * plan.source_channels;
    return {layout.add_rows(plan.pixels->data() + begin, part_bytes, row_bytes, plan.part.height),
            part_bytes};
  }
  Picture add_pass(size_t index, const ImagePlan::Pass& pass, const Picture& in, int channels,
                   int64_t& most) {
    const int64_t row_bytes = int64_t{pass.columns} * channels, bytes = pass.rows * row_bytes;
    const Picture out = {{ImagePlace::scratch, scratch_bytes}, row_bytes};
    scratch_bytes += aligned(bytes);
    most = std::max(most, bytes);
    passes[index] = {.in = in.begin,
                     .out = out.begin,
                     .in_row_bytes = in.row_bytes,
                     .first = layout.add(pass.first),
                     .weights = layout.add(pass.weights),
                     .rows = pass.rows,
                     .columns = pass.columns,
                     .channels = channels,
                     .count = pass.count,
                     .vertical = pass.vertical};
    return out;
  }
  // Returns the place of the plan's values; reuses the last ones, since most images have the same.
  ImageBytes values_of(const ImagePlan& plan) {
    if (last_ && last_->values == plan.values) return last_values_;
    last_ = &plan;
    return last_values_ = layout.add(plan.values);
  }
  ImageBytes erasures_of(const ImagePlan& plan, std::vector<ImageErasure>& all) {
    for (const auto& [box, values] : plan.erased)
      all.push_back({.left = box.left,
                     .top = box.top,
                     .width = box.width,
                     .height = box.height,
                     .is_flat = static_cast<int>(values.size()) == plan.channels,
                     .values = layout.add(values)});
    return layout.add(all);
  }

  const ImagePlan* last_ = nullptr;  // the last plan with new values
  ImageBytes last_values_;
  std::vector<std::vector<ImageErasure>> erasures_;  // by image
};

}  // namespace

void GpuBatch::set(int64_t position, const LazyImage& image) {
  ImagePlan plan = image.plan();
  const uint8_t* address = plan.stored ? plan.stored->on(device_) : nullptr;
  if (!address && !plan.pixels) plan.pixels = plan.stored->pixels();
  images_[static_cast<size_t>(position)].emplace(Prepared{std::move(plan), address});
}

void GpuBatch::pack(const Staging* staging) {
  std::vector<const Prepared*> good;
  size_t rounds = 0;
  for (const auto& image : images_) {
    if (!image) continue;
    good.push_back(&*image);
    rounds = std::max(rounds, image->plan.passes.size());
  }
  if (good.empty()) return;
  Tables tables(good.size(), rounds);
  for (size_t i = 0; i < good.size(); ++i) tables.add(i, good[i]->plan, good[i]->address);
  call_.passes = tables.layout.add(tables.passes).offset;
  call_.results = tables.layout.add(tables.results).offset;
  call_.rounds = static_cast<int64_t>(rounds);
  largest_ = std::move(tables.largest);
  scratch_bytes_ = rounded_up(tables.scratch_bytes);
  const ImagePlan& first = good[0]->plan;
  shape_ = {static_cast<int64_t>(good.size()), first.channels, first.height(), first.width()};
  const Shape bytes = {rounded_up(tables.layout.size())};
  upload_ = staging ? staging->to_fill(bytes, DType::u8) : empty(bytes, {DType::u8});
  tables.layout.write(static_cast<char*>(upload_.data()));
  for (auto& image : images_)
    if (image && image->address) read_.push_back(std::move(image->plan.stored));
  images_.clear();
}

Tensor GpuBatch::tensor(const Staging* staging) const {
  const MemoryScope memory(MemoryTag::data);
  const Tensor there = staging ? staging->on_device(upload_) : upload_;
  const Tensor scratch = empty({scratch_bytes_}, {DType::u8, device_});
  const Tensor images = empty(shape_, {DType::f32, device_});
  kernels::ImageBatch call = call_;
  call.largest = largest_.data();
  kernels::on(device_).transform_images(images.view(), there.view(), scratch.view(), call);
  return images;
}

}  // namespace booster
