#include "booster/config/config_layout.h"

#include "booster/config/registry.h"
#include "booster/numerics/tensor_checker.h"
#include "core/nn/models/vit.h"

namespace booster {

namespace {

template <class Entries>
std::vector<NamedTable> choices_of(const Entries& entries) {
  std::vector<NamedTable> choices;
  for (const auto& entry : entries)
    choices.push_back({entry.name, entry.description, entry.options});
  return choices;
}

Section booster_section() {
  return {.name = "booster",
          .description = "how the model is spread and in what numbers it trains",
          .options = {libraries_option()},
          .sections = {
              {.name = "plugin",
               .description = "how the model is spread over ranks",
               .choices = choices_of(plugin_registry().entries()),
               .default_choice = "single",
               .short_form = true},
              {.name = "mixed_precision",
               .description = "the precision strategy",
               .choices = choices_of(precision_registry().entries()),
               .default_choice = "fp32",
               .short_form = true},
          }};
}

Section model_section() {
  std::vector<NamedTable> choices;
  for (const auto& name : models::vit_names())
    choices.push_back({name, "Vision Transformer, as timm's", {}});
  return {
      .name = "model",
      .description = "what is trained",
      .options =
          {
              integer_option("num_classes", 101, between(1, 1'000'000), "outputs of the head"),
              integer_option("img_size", 224, between(16, 4096),
                             "pixels a side; those beyond a multiple of the patch are left out"),
              number_option("drop_rate", 0, from_below(0, 1), "dropout before the head"),
              number_option("pos_drop_rate", 0, from_below(0, 1),
                            "dropout after the position embedding"),
              number_option("proj_drop_rate", 0, from_below(0, 1), "dropout after projections"),
              number_option("attn_drop_rate", 0, from_below(0, 1), "dropout of attention weights"),
              number_option("drop_path_rate", 0, from_below(0, 1),
                            "stochastic depth of the last block"),
          },
      .choices = choices,
      .default_choice = "vit_tiny_patch16_224"};
}

Section data_section() {
  return {.name = "data",
          .description = "images and how they are loaded",
          .options = {
              data_path_option(
                  "root", "",
                  "folder with the images; may begin with $NAME; empty: a small made-up set"),
              integer_option("batch_size", 32, between(1, 1'000'000), "images per step and rank"),
              integer_option("workers", 2, between(0, 256),
                             "threads that load; 0: the training thread does"),
              integer_option("prefetch", 2, between(1, 1024), "batches made ahead"),
              choice_option("on_bad_image", "fail", {"fail", "skip"},
                            "an unreadable image ends the run, or is left out and listed"),
              integer_option("cache_mb", 0, at_least(0), "memory for decoded images, in MiB"),
              number_option("validation_fraction", 0.2, {0, 1, true, true},
                            "share of each class kept for validation"),
              boolean_option("include_background", false, "keep the class BACKGROUND_Google"),
          }};
}

OptionTable with_lr(double lr, double weight_decay, OptionTable options) {
  options.insert(options.begin(), number_option("lr", lr, at_least(0), "learning rate"));
  options.push_back(number_option("weight_decay", weight_decay, at_least(0), "weight decay"));
  return options;
}

OptionTable adam_options(double lr, double weight_decay, double eps) {
  return with_lr(
      lr, weight_decay,
      {numbers_option("betas", {0.9, 0.999}, from_below(0, 1), "decay of the two moments"),
       number_option("eps", eps, above(0), "added to the denominator")});
}

Section optimizer_section() {
  OptionTable lamb = adam_options(1e-3, 0.01, 1e-6);
  lamb.push_back(boolean_option("grad_averaging", true, "weigh the gradient by 1 - beta1"));
  lamb.push_back(
      number_option("max_grad_norm", 1, at_least(0), "clip of the global gradient norm; 0: none"));
  lamb.push_back(boolean_option("trust_clip", false, "cap the trust ratio at 1"));
  lamb.push_back(boolean_option("always_adapt", false, "trust ratio without weight decay too"));
  const OptionTable sgd = with_lr(
      0.01, 0,
      {number_option("momentum", 0, between(0, 1), "share of the last update kept"),
       number_option("dampening", 0, between(0, 1),
                     "share of the gradient left out of the momentum"),
       boolean_option("nesterov", false, "Nesterov's momentum; wants momentum and no dampening")});
  return {.name = "optimizer",
          .description = "how weights follow gradients",
          .choices = {{"sgd", "stochastic gradient descent", sgd},
                      {"adam", "Adam", adam_options(1e-3, 0, 1e-8)},
                      {"adamw", "Adam with decoupled weight decay", adam_options(1e-3, 0.01, 1e-8)},
                      {"lamb", "LAMB: Adam with a trust ratio per layer", lamb}},
          .default_choice = "sgd"};
}

Section lr_scheduler_section() {
  const Option warmup = integer_option("warmup_steps", 0, at_least(0), "steps until the full rate");
  const Option total =
      integer_option("total_steps", 0, at_least(0), "steps of the schedule; 0: the whole training");
  const Option gamma = number_option("gamma", 0.1, above(0), "factor of each decrease");
  const Option floor = number_option("eta_min", 0, at_least(0), "lowest learning rate");
  const OptionTable one_cycle = {
      number_option("max_lr", 0.1, above(0), "highest learning rate"),
      total,
      choice_option("anneal_strategy", "cos", {"cos", "linear"}, "shape of both phases"),
      boolean_option("cycle_momentum", true, "momentum goes the opposite way"),
      number_option("pct_start", 0.3, between(0, 1), "share of the steps that rise"),
      number_option("div_factor", 25, above(0), "highest over first learning rate"),
      number_option("final_div_factor", 1e4, above(0), "first over last learning rate")};
  return {
      .name = "lr_scheduler",
      .description = "how the learning rate changes over steps",
      .choices =
          {{"constant", "the optimizer's learning rate throughout", {}},
           {"linear_warmup", "rises over the warm-up, then falls straight to 0", {warmup, total}},
           {"cosine", "half a cosine from the learning rate down to eta_min", {total, floor}},
           {"cosine_warmup", "rises over the warm-up, then half a cosine", {warmup, total, floor}},
           {"polynomial",
            "falls as a power of the steps left",
            {total, number_option("power", 1, above(0), "exponent")}},
           {"step",
            "times gamma every step_size steps",
            {integer_option("step_size", 1000, at_least(1), "steps between decreases"), gamma}},
           {"multi_step",
            "times gamma at each milestone",
            {integers_option("milestones", {}, at_least(0), "steps at which it decreases"), gamma}},
           {"exponential", "times gamma every step", {gamma}},
           {"one_cycle", "rises to max_lr, then falls far below the first rate", one_cycle}},
      .default_choice = "constant"};
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
                         "batches whose gradients make one step"),
          number_option("clip_grad_norm", 0, at_least(0), "largest gradient norm; 0: none"),
          number_option("label_smoothing", 0, from_below(0, 1),
                        "share of the target spread over all classes"),
          integer_option("log_every", 10, between(1, 1'000'000'000),
                         "steps between lines of metrics.jsonl"),
          path_option("output_dir", "out", "folder for everything the run writes"),
          integer_option("checkpoint_every", 500, at_least(0),
                         "steps between checkpoints; 0: only at the end"),
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

}  // namespace

Option libraries_option() {
  return texts_option("libraries", {},
                      "shared libraries with plugins and strategies of your own, by path");
}

std::vector<std::string> names_of(const std::vector<NamedTable>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.name);
  return names;
}

Section config_layout() {
  return {.name = "config",
          .description = "what booster trains, and how",
          .options = {choice_option("device", "auto", {"auto", "cpu", "cuda"},
                                    "where the model lives; auto: a GPU if there is one")},
          .sections = {booster_section(), model_section(), data_section(), optimizer_section(),
                       lr_scheduler_section(), train_section()}};
}

}  // namespace booster
