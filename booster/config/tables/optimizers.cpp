#include "booster/config/tables/optimizers.h"

#include "booster/config/options/options.h"
#include "core/optim/optimizers.h"

namespace booster {

namespace {

// Returns the option layer_decay, which every optimizer has; from_config.cpp uses it to make
// parameter groups.
Option layer_decay() {
  return number_option("layer_decay", 1, {0, 1, true, false},
                       "rate of each layer, relative to the next layer's; below 1, biases, norms "
                       "and embeddings have no weight decay, as in timm");
}

template <class Made, class Fields>
OptimizerEntry optimizer_entry(const char* name, const char* description,
                               const FieldTable<Fields>& fields) {
  OptionTable options = fields.options();
  options.push_back(layer_decay());
  return {name, description, options,
          [=](const ParameterGroups& parameters, const OptionValues& values) -> Optimizer {
            return Made(parameters, fields.read(values));
          }};
}

template <class Fields>
FieldRow<Fields> lr() {
  return field("lr", &Fields::lr, at_least(0), "learning rate");
}

template <class Fields>
FieldRow<Fields> weight_decay() {
  return field("weight_decay", &Fields::weight_decay, at_least(0), "weight decay");
}

template <class Fields>
FieldRow<Fields> betas() {
  return field("betas", &Fields::betas, from_below(0, 1), "decay of the two moments");
}

template <class Fields>
FieldRow<Fields> eps() {
  return field("eps", &Fields::eps, above(0), "added to the denominator");
}

FieldTable<SGDOptions> sgd_fields() {
  using Fields = SGDOptions;
  return {
      lr<Fields>(),
      field("momentum", &Fields::momentum, between(0, 1), "share of the last update to keep"),
      field("dampening", &Fields::dampening, between(0, 1),
            "share of the gradient to exclude from the momentum"),
      field("nesterov", &Fields::nesterov, "Nesterov's momentum; needs momentum and no dampening"),
      weight_decay<Fields>()};
}

template <class Fields>
FieldTable<Fields> adam_fields() {
  return {lr<Fields>(), betas<Fields>(), eps<Fields>(), weight_decay<Fields>()};
}

FieldTable<RMSpropOptions> rmsprop_fields() {
  using Fields = RMSpropOptions;
  return {lr<Fields>(),
          field("alpha", &Fields::alpha, between(0, 1), "decay of the averages"),
          eps<Fields>(),
          weight_decay<Fields>(),
          field("momentum", &Fields::momentum, between(0, 1), "share of the last update to keep"),
          field("centered", &Fields::centered,
                "divide by the root of the variance instead of the mean square")};
}

FieldTable<LAMBOptions> lamb_fields() {
  using Fields = LAMBOptions;
  return {lr<Fields>(),
          betas<Fields>(),
          eps<Fields>(),
          weight_decay<Fields>(),
          field("grad_averaging", &Fields::grad_averaging, "weight the gradient by 1 - beta1"),
          field("max_grad_norm", &Fields::max_grad_norm, at_least(0),
                "clip of the global gradient norm; 0: none"),
          field("trust_clip", &Fields::trust_clip, "limit the trust ratio to 1"),
          field("always_adapt", &Fields::always_adapt,
                "use the trust ratio also without weight decay")};
}

FieldTable<AdafactorOptions> adafactor_fields() {
  using Fields = AdafactorOptions;
  return {lr<Fields>(),
          field("beta2_decay", &Fields::beta2_decay, between(-1, 0),
                "exponent of the step, whose power is the share of the new mean square"),
          field("eps", &Fields::eps, at_least(0),
                "least root of the mean square, 0: the dtype's spacing at 1; least size of a "
                "parameter"),
          field("d", &Fields::d, at_least(1), "largest root mean square of an update"),
          weight_decay<Fields>()};
}

FieldTable<MuonOptions> muon_fields() {
  using Fields = MuonOptions;
  return {lr<Fields>(),
          weight_decay<Fields>(),
          field("momentum", &Fields::momentum, between(0, 1), "share of the last momentum to keep"),
          field("nesterov", &Fields::nesterov, "Nesterov's momentum"),
          field("ns_steps", &Fields::ns_steps, between(0, 99), "Newton-Schulz iterations"),
          field("adjust_lr_fn", &Fields::adjust_lr_fn,
                {"original", "match_rms_adamw", "spectral_unclamped"},
                "factor of the rate by a matrix's sides; match_rms_adamw takes AdamW's rates"),
          betas<Fields>()};
}

// Muon for the matrices of each group, AdamW for the rest.
OptimizerEntry muon() {
  OptimizerEntry entry = optimizer_entry<Muon>(
      "muon", "Muon for matrices, AdamW for all other parameters", muon_fields());
  entry.make = [make = entry.make](const ParameterGroups& parameters, const OptionValues& values) {
    std::vector<ParameterGroup> groups;
    for (const ParameterGroup& group : parameters.list()) {
      OptimizerOptions by_adamw = group.options.numbers();
      by_adamw["adamw"] = 1;
      ParameterGroup matrices = {{}, group.options}, others = {{}, by_adamw};
      for (const NamedTensor& parameter : group.parameters)
        (parameter.tensor.ndim() == 2 ? matrices : others).parameters.push_back(parameter);
      for (const ParameterGroup& part : {matrices, others})
        if (!part.parameters.empty()) groups.push_back(part);
    }
    return make(groups, values);
  };
  return entry;
}

}  // namespace

const std::vector<OptimizerEntry>& optimizer_entries() {
  static const std::vector<OptimizerEntry> entries = {
      optimizer_entry<SGD>("sgd", "stochastic gradient descent", sgd_fields()),
      optimizer_entry<Adam>("adam", "Adam", adam_fields<AdamOptions>()),
      optimizer_entry<AdamW>("adamw", "Adam with decoupled weight decay",
                             adam_fields<AdamWOptions>()),
      optimizer_entry<RMSprop>("rmsprop", "RMSprop", rmsprop_fields()),
      optimizer_entry<LAMB>("lamb", "LAMB: Adam with a trust ratio per layer", lamb_fields()),
      optimizer_entry<Adafactor>("adafactor", "Adafactor: mean squares by rows and columns",
                                 adafactor_fields()),
      muon()};
  return entries;
}

}  // namespace booster
