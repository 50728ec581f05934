// A checkpoint whose state.json is the input, with a matching manifest: what an attacker who writes
// the whole folder can make.
#include "booster/booster.h"
#include "booster/checkpoint/folder/manifest.h"
#include "core/nn/criterion.h"
#include "platform/files/sha256.h"
#include "tests/fuzz/own_folder.h"

using namespace booster;

namespace {

struct Training {
  Booster booster;
  Boosted boosted;
};

Training make_training() {
  manual_seed(1);
  Booster booster({.mixed_precision = "fp16"});
  Model model = models::mlp({3, 4, 2});
  Optimizer optimizer = AdamW(model.parameters(), {});
  LRScheduler scheduler =
      CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 3, .total_steps = 20});
  TensorDataset data{ones({8, 3}), zeros({8}, {.dtype = DType::i64})};
  auto loader = booster.prepare_dataloader(std::move(data), {.batch_size = 2, .workers = 1});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), loader, scheduler);
  return {std::move(booster), boosted};
}

struct Fixture {
  std::filesystem::path root = fuzz::own_folder();
  Training training = make_training();
  std::filesystem::path folder;
  Manifest manifest;

  Fixture() {
    save_training(root, training.boosted, {.step = 7});
    folder = *latest_checkpoint(root, [](const std::string&) {});
    manifest = read_manifest(folder);
  }

  void put_state(std::string_view text) {
    fuzz::put_file(folder / "state.json", text);
    for (ManifestFile& file : manifest.files)
      if (file.name == "state.json")
        file = {file.name, text.size(), sha256(std::as_bytes(std::span(text)))};
    fuzz::put_file(folder / manifest_name, manifest.to_text());
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Fixture fixture;
  fixture.put_state(fuzz::text_of(data, size));
  fuzz::accepts([&] {
    resume_training(fixture.root, fixture.training.boosted, [](const std::string&) {});
  });
  return 0;
}
