#include "booster/config/from_config.h"

#include "core/nn/models/vit.h"
#include "core/optim/adam.h"
#include "core/optim/lamb.h"
#include "core/optim/sgd.h"

namespace booster {

namespace {

std::pair<double, double> betas(const OptionValues& values) {
  const auto pair = values.get<std::vector<double>>("betas");
  return {pair.at(0), pair.at(1)};
}

SGD make_sgd(const Parameters& parameters, const OptionValues& values) {
  return SGD(parameters, {.lr = values.get<double>("lr"),
                          .momentum = values.get<double>("momentum"),
                          .dampening = values.get<double>("dampening"),
                          .weight_decay = values.get<double>("weight_decay"),
                          .nesterov = values.get<bool>("nesterov")});
}

// Adam's or AdamW's options.
template <class AdamKind>
AdamKind adam_options(const OptionValues& values) {
  return {.lr = values.get<double>("lr"),
          .betas = betas(values),
          .eps = values.get<double>("eps"),
          .weight_decay = values.get<double>("weight_decay")};
}

LAMB make_lamb(const Parameters& parameters, const OptionValues& values) {
  return LAMB(parameters, {.lr = values.get<double>("lr"),
                           .betas = betas(values),
                           .eps = values.get<double>("eps"),
                           .weight_decay = values.get<double>("weight_decay"),
                           .max_grad_norm = values.get<double>("max_grad_norm"),
                           .grad_averaging = values.get<bool>("grad_averaging"),
                           .trust_clip = values.get<bool>("trust_clip"),
                           .always_adapt = values.get<bool>("always_adapt")});
}

}  // namespace

Model make_model(const Config& config) {
  const OptionValues values = config.options("model");
  const int64_t side = values.get<int64_t>("img_size");
  return models::vit(values.get<std::string>("name"),
                     {.num_classes = values.get<int64_t>("num_classes"),
                      .drop_rate = values.get<double>("drop_rate"),
                      .attn_drop_rate = values.get<double>("attn_drop_rate"),
                      .proj_drop_rate = values.get<double>("proj_drop_rate"),
                      .pos_drop_rate = values.get<double>("pos_drop_rate"),
                      .drop_path_rate = values.get<double>("drop_path_rate"),
                      .img_size = Size2d{side, side}});
}

Optimizer make_optimizer(const Config& config, const Model& model) {
  const OptionValues values = config.options("optimizer");
  const auto name = values.get<std::string>("name");
  if (name == "sgd") return make_sgd(model.parameters(), values);
  if (name == "adam") return Adam(model.parameters(), adam_options<AdamOptions>(values));
  if (name == "adamw") return AdamW(model.parameters(), adam_options<AdamWOptions>(values));
  return make_lamb(model.parameters(), values);
}

LRScheduler make_lr_scheduler(const Config& config, const Optimizer& optimizer,
                              int64_t training_steps) {
  int64_t steps = training_steps;
  const OptionValues values = config.options("lr_scheduler");
  const auto name = values.get<std::string>("name");
  const auto whole = [&](const char* option) { return values.get<int64_t>(option); };
  const auto number = [&](const char* option) { return values.get<double>(option); };
  if (values.has("total_steps") && whole("total_steps") > 0) steps = whole("total_steps");
  if (name == "linear_warmup") {
    return LinearWarmupLR(optimizer, {.warmup_steps = whole("warmup_steps"), .total_steps = steps});
  }
  if (name == "cosine") {
    return CosineAnnealingLR(optimizer, {.T_max = steps, .eta_min = number("eta_min")});
  }
  if (name == "cosine_warmup") {
    return CosineAnnealingWarmupLR(optimizer, {.warmup_steps = whole("warmup_steps"),
                                               .total_steps = steps,
                                               .eta_min = number("eta_min")});
  }
  if (name == "polynomial") {
    return PolynomialLR(optimizer, {.total_steps = steps, .power = number("power")});
  }
  if (name == "step") {
    return StepLR(optimizer, {.step_size = whole("step_size"), .gamma = number("gamma")});
  }
  if (name == "multi_step") {
    return MultiStepLR(optimizer, {.milestones = values.get<std::vector<int64_t>>("milestones"),
                                   .gamma = number("gamma")});
  }
  if (name == "exponential") return ExponentialLR(optimizer, {.gamma = number("gamma")});
  if (name == "one_cycle") {
    check(steps >= training_steps,
          "lr_scheduler.total_steps: one_cycle ends before the training; got {}, want 0 or at "
          "least {}",
          steps, training_steps);
    return OneCycleLR(optimizer, {.max_lr = number("max_lr"),
                                  .total_steps = steps,
                                  .pct_start = number("pct_start"),
                                  .anneal_strategy = values.get<std::string>("anneal_strategy"),
                                  .cycle_momentum = values.get<bool>("cycle_momentum"),
                                  .div_factor = number("div_factor"),
                                  .final_div_factor = number("final_div_factor")});
  }
  return ConstantLR(optimizer);
}

DataLoaderOptions make_loader_options(const Config& config) {
  const OptionValues values = config.options("data");
  return {.batch_size = values.get<int64_t>("batch_size"),
          .workers = values.get<int>("workers"),
          .prefetch = values.get<int>("prefetch"),
          .seed = config.get<uint64_t>("train.seed"),
          .on_bad_image = bad_image_policy(values.get<std::string>("on_bad_image"))};
}

}  // namespace booster
