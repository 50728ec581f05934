// Learns to write a text of numbers backwards: an encoder-decoder with a mask, on texts of
// different lengths, in any precision and on any layout of ranks.
//   build/examples/translate [PRECISION] [LAYOUT]
//   build/tools/booster run --nproc_per_node 2 build/examples/translate bf16 pipeline
#include "examples/several_tensors/encoder_decoder.h"
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

// A text of 3 to 7 numbers from 3 on. The target begins with 1 and ends with 2; 0 is padding.
class Backwards : public Dataset {
 public:
  int64_t size() const override { return 512; }
  Sample load(int64_t, RandomStream& random) const override {
    std::vector<int64_t> source(static_cast<size_t>(3 + random.below(5)));
    for (int64_t& token : source) token = 3 + random.below(9);
    std::vector<int64_t> target(source.rbegin(), source.rend()), next = target;
    target.insert(target.begin(), 1);
    next.push_back(2);
    const auto tensor = [](const std::vector<int64_t>& all) {
      return from_vector(all, {static_cast<int64_t>(all.size())});
    };
    const Tensor mask = ones({static_cast<int64_t>(source.size())}, {.dtype = DType::boolean});
    return Sample::named({{"source", tensor(source)}, {"mask", mask}, {"target", tensor(target)}},
                         {{"next", tensor(next)}});
  }
};

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model model = several_tensors::encoder_decoder();
  const AdamW optimizer(model.parameters(), {.lr = 3e-3});
  const Criterion criterion = [](const Tensor& logits, const Tensors& target) {
    return cross_entropy(flatten(logits, 0, 1), flatten(target["next"]), {.ignore_index = 0});
  };
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, criterion);
  DataLoader data = booster.prepare_dataloader(
      Backwards(),
      {.batch_size = 32 / booster.plugin().layout().data,
       .shuffle = true,
       .drop_last = true,
       .collate = pad_to_longest({{"source", 0}, {"mask", 0}, {"target", 0}, {"next", 0}})});
  for (int epoch = 0; epoch < 12; ++epoch) {
    Tensor loss;
    for (auto batch = data.begin(); batch != data.end();) {
      loss = booster.execute_pipeline(batch, net, loss_fn, opt);
      opt.step();
      opt.zero_grad();
    }
    if (world.rank == 0) fmt::print("epoch {} loss {:.4f}\n", epoch, loss.item());
  }
}
