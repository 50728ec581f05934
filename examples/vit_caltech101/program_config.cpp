#include "examples/vit_caltech101/program_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace example {

using namespace booster;

namespace {

Section data_section() {
  return {.name = "data",
          .description = "images and how they are loaded",
          .options = {
              data_path_option("root", "DATA",
                               "folder or archive (tar, zip) with the images, else the "
                               "environment variable DATA names it; without either, a small "
                               "made-up set"),
              integer_option("batch_size", 32, between(1, 1'000'000), "images per step and rank"),
              integer_option("workers", 2, between(0, 256),
                             "threads that load; 0: the training thread does"),
              integer_option("prefetch", 2, between(1, 1024), "batches made ahead"),
              choice_option("on_bad_image", "fail", {"fail", "skip"},
                            "an unreadable image ends the run, or is left out and listed"),
              integer_option("cache_mb", 0, at_least(0), "memory for decoded images, in MiB"),
              integer_option("device_cache_mb", 2048, at_least(0),
                             "memory of the GPU for decoded images, in MiB, if it trains there"),
              number_option("validation_fraction", 0.2, {0, 1, true, true},
                            "share of each class kept for validation"),
              boolean_option("include_background", false, "keep the class BACKGROUND_Google"),
              integer_option("img_size", 224, between(16, 4096),
                             "pixels a side, for a model without an img_size of its own"),
              integer_option("rand_augment", 0, between(0, 100),
                             "operations of RandAugment on each training image; 0: none"),
              integer_option("rand_augment_magnitude", 9, at_least(0),
                             "how strong they are, of 0 to rand_augment_bins - 1"),
              integer_option("rand_augment_bins", 31, between(1, 1000), "steps of strength"),
              choice_option("rand_augment_interpolation", "nearest", {"nearest", "bilinear"},
                            "of those that move pixels"),
              integer_option("rand_augment_fill", 0, between(0, 255),
                             "grey that comes in from outside then"),
              number_option("random_erasing", 0, between(0, 1),
                            "probability that a rectangle of a training image is erased"),
              choice_option("random_erasing_mode", "const", {"const", "rand", "pixel"},
                            "what stands there then: the mean, one random colour, or random "
                            "pixels"),
              integer_option("random_erasing_count", 1, between(1, 100),
                             "most rectangles of an image, which share the area"),
              number_option("mixup", 0, at_least(0),
                            "alpha of mixup, which mixes each batch with itself; 0: none"),
              number_option("cutmix", 0, at_least(0),
                            "alpha of CutMix, which moves a rectangle instead; 0: none"),
              choice_option("mixup_mode", "batch", {"batch", "pair", "elem"},
                            "whether a batch, each pair or each image gets a share of its own"),
              integer_option("mixup_off_epoch", 0, at_least(0),
                             "the epoch, from 0, from which nothing is mixed; 0: all are"),
              number_option("mixup_prob", 1, between(0, 1), "share of batches that are mixed"),
              number_option("mixup_switch_prob", 0.5, between(0, 1),
                            "share of those that are by CutMix, with both"),
              integer_option("repeated_augmentation", 1, between(1, 1000),
                             "how often an epoch takes each image, of a share of them"),
          }};
}

Section train_section() {
  return {
      .name = "train",
      .description = "length, order and output of the training",
      .options = {
          integer_option("epochs", 2, between(1, 1'000'000), "passes over the data"),
          integer_option("max_steps", 0, at_least(0),
                         "ends the training after so many steps; 0: no limit"),
          integer_option("seed", 42, at_least(0),
                         "of initial weights, dropout, order and augmentation"),
          integer_option("accumulate", 1, between(1, 1'000'000),
                         "batches whose gradients make one step; an epoch's last step takes those "
                         "that are left"),
          number_option("clip_grad_norm", 0, at_least(0), "largest gradient norm; 0: none"),
          choice_option("on_nan", "stop", {"stop", "warn"},
                        "a loss that is not finite ends the training, or is told; weights that are "
                        "not are never saved"),
          number_option("label_smoothing", 0, from_below(0, 1),
                        "share of the target spread over all classes"),
          number_option("ema_decay", 0, from_below(0, 1),
                        "of averages of the weights, which are validated too; 0: none"),
          boolean_option("ema_warmup", false, "begin with a smaller decay, as timm does"),
          integer_option("validations_per_epoch", 1, between(1, 1'000'000),
                         "validations, after equal parts of an epoch"),
          choice_option("eval_metric", "top1", {"top1", "top5", "loss"},
                        "by which a validation is the best; of the averages, if there are some"),
          boolean_option("keep_best", false, "keep the best training in output_dir/best"),
          integer_option("early_stopping", 0, at_least(0),
                         "ends the training after so many validations without a better one; 0: "
                         "never"),
          number_option("early_stopping_min_delta", 0, at_least(0),
                        "by more than which a better one is better"),
          integer_option("log_every", 10, between(1, 1'000'000'000),
                         "steps between lines of metrics.jsonl"),
          path_option("output_dir", "out", "folder for everything the run writes"),
          scalar_option("tensorboard", "true, false or a folder",
                        "event files for TensorBoard, in that folder, or output_dir/tensorboard"),
          integer_option("checkpoint_every", 500, at_least(0),
                         "steps between checkpoints; 0: only at the end"),
          number_option("checkpoint_minutes", 0, at_least(0),
                        "minutes between checkpoints, beside those; 0: no limit"),
          choice_option("resume", "auto", {"auto", "never"},
                        "auto: go on from the newest checkpoint in output_dir, if there is one"),
          integer_option("keep_checkpoints", 2, between(1, 1'000'000),
                         "newest checkpoints that are kept"),
          step_range_option("profile", "steps whose time is shown by kernel, with a trace.json"),
          step_range_option("diagnose", "steps whose numerics are looked at, with a numerics.json"),
          choice_option("diagnose_check", "none", numerics::check_mode_names(),
                        "with diagnose: results of ops that get a line in the file worker_cpu; "
                        "abort: end at the first that is not finite"),
          texts_option("diagnose_ops", {}, "with diagnose_check: only these ops"),
          texts_option("diagnose_skip_ops", {}, "with diagnose_check: not these ops"),
      }};
}

Section inference_section() {
  return {.name = "inference",
          .description = "what a trained model is used for, instead of training",
          .options = {
              or_null(path_option("evaluate", "",
                                  "validation: the images kept for it; or a folder or archive of "
                                  "images, with one for each class; or a checkpoint, which is "
                                  "tested on the images kept")),
              path_option("checkpoint", "newest",
                          "of train.output_dir: newest, or best, what train.keep_best kept; else a "
                          "checkpoint, the folder of a training or a safetensors file"),
              choice_option("weights", "trained", {"trained", "averages"},
                            "of a checkpoint: averages are what train.ema_decay keeps"),
              texts_option("predict", {},
                           "files of images whose classes are told; a checkpoint may come first"),
              integer_option("top", 5, between(1, 1'000'000), "classes told of each file"),
              boolean_option("json", false, "with predict: a line of JSON for each file"),
          }};
}

// Checks everything that is known before the data is opened.
void check_lengths(const Config& config, Mistakes& mistakes) {
  const int64_t max_steps = config.get<int64_t>("train.max_steps");
  const bool has_warmup = config.has("lr_scheduler.warmup_steps");
  if (max_steps == 0 || !has_warmup || config.get<int64_t>("lr_scheduler.total_steps") > 0) return;
  const int64_t warmup = config.get<int64_t>("lr_scheduler.warmup_steps");
  if (warmup > max_steps)
    mistakes.add("lr_scheduler.warmup_steps",
                 fmt::format("longer than the training; got {}, want at most {}, which is "
                             "train.max_steps",
                             warmup, max_steps));
}

// Images have three channels, and the side length that the config gives.
void check_inputs(const Config& config, Mistakes& mistakes) {
  if (mistakes.any_in("model") || mistakes.any_in("data")) return;
  if (config.has("model.in_chans") && config.get<int64_t>("model.in_chans") != 3)
    mistakes.add("model.in_chans", fmt::format("images have three channels; got {}, want 3",
                                               config.get<int64_t>("model.in_chans")));
  if (!config.has("model.sizes")) return;
  const int64_t side = config.get<int64_t>("data.img_size"), pixels = 3 * side * side;
  const int64_t first = config.get<std::vector<int64_t>>("model.sizes").front();
  if (first != pixels)
    mistakes.add("model.sizes", fmt::format("the first is not an image's; got {}, want 3 x {} x {} "
                                            "= {}",
                                            first, side, side, pixels));
  if (!config.get<bool>("model.flatten"))
    mistakes.add("model.flatten", "images have to become rows; got false, want true");
}

void check_augmentation(const Config& config, Mistakes& mistakes) {
  if (mistakes.any_in("data")) return;
  const auto magnitude = config.get<int64_t>("data.rand_augment_magnitude");
  const auto bins = config.get<int64_t>("data.rand_augment_bins");
  if (magnitude >= bins)
    mistakes.add("data.rand_augment_magnitude",
                 fmt::format("no such step of strength; got {}, want at most {}, one less than "
                             "data.rand_augment_bins",
                             magnitude, bins - 1));
}

void check_tensorboard(const Config& config, Mistakes& mistakes) {
  const auto& wanted = config.to_json().at("train").at("tensorboard");
  const auto is_folder = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return std::ranges::count(std::initializer_list<std::string>{"", "true", "false", "none", "yes",
                                                                 "no"},
                              text) == 0;
  };
  const bool fits = wanted.is_null() || wanted.is_boolean() ||
                    (wanted.is_string() && is_folder(wanted.get<std::string>()));
  if (!fits)
    mistakes.add("train.tensorboard",
                 fmt::format("got {}, want true, false or a folder", wanted.dump()));
}

const char* const all_steps = "1:1000000000000";

}  // namespace

ProgramConfig program_config() {
  return {.sections = {data_section(), train_section(), inference_section()},
          .arguments = {{"--profile", "train.profile", "FIRST:LAST",
                         "shows where the time of these steps goes"},
                        {"--diagnose", "train.diagnose", "FIRST:LAST",
                         "looks at the numerics of these steps, or all", all_steps},
                        {"--evaluate", "inference.evaluate", "CHECKPOINT|FOLDER",
                         "tests a checkpoint, or the trained model on a folder or the images kept",
                         "validation"},
                        {.name = "--predict",
                         .path = "inference.predict",
                         .form = "[CHECKPOINT] FILE ...",
                         .description = "tells the classes of these images",
                         .several = true},
                        {"--json", "inference.json", "true|false", "predictions as JSON", "true"}},
          .defaults = {{"model.num_classes", nullptr}},
          .check = [](const Config& config, Mistakes& mistakes) {
            check_lengths(config, mistakes);
            check_inputs(config, mistakes);
            check_augmentation(config, mistakes);
            check_tensorboard(config, mistakes);
          }};
}

}  // namespace example
