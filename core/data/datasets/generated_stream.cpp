#include "core/data/dataset.h"
#include "platform/error.h"

#include <utility>

namespace booster {
namespace {

using NextSample = std::function<std::optional<Sample>()>;
using OpenShard = std::function<NextSample(int64_t shard, uint64_t epoch)>;

class GeneratedReader : public StreamReader {
 public:
  explicit GeneratedReader(NextSample next) : next_(std::move(next)) {}
  MakeSample next() override {
    std::optional<Sample> sample = next_();
    if (!sample) return nullptr;
    const Tensors inputs = sample->inputs();
    const Tensor first = inputs.begin()->tensor;
    length_ = first.ndim() > 0 ? first.size(0) : 1;
    return [sample = std::move(*sample)](RandomStream&) { return sample; };
  }
  int64_t length() const override { return length_; }

 private:
  NextSample next_;
  int64_t length_ = 0;  // of the last sample's first input
};

class GeneratedStream : public StreamDataset {
 public:
  GeneratedStream(OpenShard open, int64_t shards) : open_(std::move(open)), shards_(shards) {}
  int64_t shards() const override { return shards_; }
  std::unique_ptr<StreamReader> open(int64_t shard, uint64_t epoch) const override {
    NextSample next = open_(shard, epoch);
    check(next != nullptr, "stream_of: open() gave no function; got null for shard {}", shard);
    return std::make_unique<GeneratedReader>(std::move(next));
  }

 private:
  OpenShard open_;
  int64_t shards_;
};

}  // namespace

std::shared_ptr<const StreamDataset> stream_of(OpenShard open, int64_t shards) {
  check(open != nullptr, "stream_of: no function; got null");
  check(shards >= 1, "stream_of: shards out of range; got {}, want 1 or more", shards);
  return std::make_shared<GeneratedStream>(std::move(open), shards);
}

}  // namespace booster
