// The configs in examples/policies, one per strategy and level, train on JPEG files like fp32.
#include "booster/booster.h"
#include "examples/vit_caltech101/data/make_small_set.h"
#include "examples/vit_caltech101/program_config.h"
#include "tests/booster/temporary_folder.h"
#include "tests/golden_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;

namespace {

constexpr int side = 32, epochs = 4;

std::vector<std::filesystem::path> policies() {
  std::vector<std::filesystem::path> files;
  const auto folder = std::filesystem::path(test::golden_folder()) / "../../examples/policies";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Caltech101 small_set(const TemporaryFolder& folder) {
  make_small_set(folder.path().string(), {.images_per_class = 16});
  const std::vector<double> half = {0.5, 0.5, 0.5};
  return Caltech101(folder.path().string(),
                    {.transform = Compose(Resize(side), CenterCrop(side), ToTensor(), Gray2RGB(),
                                          Normalize(half, half)),
                     .cache_bytes = size_t{64} << 20});
}

// Returns the mean loss of the last epoch's steps over all ranks. Repeats steps that are skipped
// while the loss scale settles, so that all policies take the same number of steps.
double final_loss(const std::filesystem::path& policy, const char* plugin, const Caltech101& data,
                  int64_t batch_size) {
  manual_seed(3);
  Booster booster = Booster::from_config(Config::from_file(
      policy, {std::string("booster.plugin=") + plugin}, example::program_config()));
  Model model = models::vit("vit_tiny_patch16_224", {.num_classes = 8,
                                                     .img_size = Size2d{side, side},
                                                     .patch_size = 8,
                                                     .embed_dim = 64,
                                                     .depth = 2,
                                                     .num_heads = 2});
  // At twice this rate rounding would determine how fast the loss falls, and any tolerance would be
  // meaningless.
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 1e-3});
  auto loader = booster.prepare_dataloader(
      data, {.batch_size = batch_size, .shuffle = true, .drop_last = true, .workers = 0});
  auto [net, opt, loss_fn, batches, lr] =
      booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    losses = {0};
    for (auto& [image, label] : batches) {
      Tensor loss;
      bool skipped = true;
      for (int attempt = 0; skipped && attempt < 5; ++attempt) {
        opt.zero_grad();
        loss = loss_fn(net(image), label);
        booster.backward(loss, opt);
        skipped = opt.step().skipped();
      }
      CHECK_FALSE(skipped);
      losses[0] += loss.item() / static_cast<double>(loader.size());
    }
  }
  booster.plugin().group().all_reduce(losses, CollectiveOp::mean);
  return losses[0];
}

// Returns a policy's allowed distance from fp32, as a share of the loss. f16 weights without
// masters lose small updates.
double tolerance(const std::string& policy) {
  return policy == "fp16_apex_O3" || policy == "fp16_paddle_pure_fp16" ? 0.2 : 0.02;
}

void check_all(const char* plugin, int64_t batch_size) {
  const TemporaryFolder folder;
  const Caltech101 data = small_set(folder);
  const auto files = policies();
  REQUIRE(files.size() >= 18);
  const auto fp32 = std::find_if(files.begin(), files.end(),
                                 [](const auto& file) { return file.stem() == "fp32"; });
  const double want = final_loss(*fp32, plugin, data, batch_size);
  CHECK(want < 0.9 * std::log(8));
  for (const auto& file : files) {
    const double loss = final_loss(file, plugin, data, batch_size);
    const std::string policy = file.stem().string();
    CHECK_MESSAGE(std::fabs(loss - want) < tolerance(policy) * want, policy, ": ", loss,
                  ", fp32: ", want);
  }
}

}  // namespace

TEST_CASE("every policy file trains on JPEG files as fp32 does, alone") { check_all("single", 16); }

TEST_CASE("rank: policy files" * doctest::skip()) {
  const World world = launch_from_env();
  check_all("torch_ddp", 8);
}

TEST_CASE("every policy file trains on JPEG files as fp32 does, on two ranks") {
  Ranks ranks("rank: policy files", 2);
  CHECK(failures(ranks.wait(300)) == "");
}
