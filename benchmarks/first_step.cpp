// The README's program up to its first optimizer step. Time it from outside to measure startup
// cost: loading libraries, choosing kernels, generating code, starting threads.
#include "booster/booster.h"

using namespace booster;

int main() {
  Booster booster({.mixed_precision = "fp32"});
  auto model = models::mlp({2, 64, 64, 2});
  auto optimizer = AdamW(model.parameters(), {.lr = 1e-2});
  auto criterion = CrossEntropyLoss();
  const TensorDataset points(uniform({4096, 2}, -1, 1), zeros({4096}, {.dtype = DType::i64}));
  auto loader = booster.prepare_dataloader(points, {.batch_size = 64, .shuffle = true});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, criterion);
  for (auto& [point, label] : loader) {
    booster.backward(loss_fn(net(point), label), opt);
    opt.step();
    break;
  }
}
