// GradScaler: scales the loss to preserve small f16 gradients, as torch.amp.GradScaler does.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);            // only to clip or read true gradients
//   scaler.step(optimizer);                // does nothing if a gradient is not finite; see report
//   scaler.update();
//
// Per optimizer the calls follow a state machine (ready -> unscaled -> stepped -> update() makes
// all ready); a call out of order throws. The values are a LossScaler's and live on the device;
// members that wait for it are marked below. For one thread.
//
// Differences from torch: a loss is scaled in f32 at least, so a 16-bit loss with dimensions does
// not overflow. A scale whose inverse is not finite is refused and the last usable one kept; torch
// corrupts parameters there. A gradient that overflows when it is unscaled counts as an overflow.
#pragma once

#include "mixed_precision/scaling/loss_scaler.h"

#include <utility>
#include <vector>

namespace booster {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;        // > 1
  double backoff_factor = 0.5;     // < 1
  int64_t growth_interval = 2000;  // finite steps in a row before the scale grows; <= 0: never
  bool enabled = true;             // false: scale() passes through, step() steps
};

// The options as a LossScaler's policy, a scaler with them, and its state under torch's keys
// (scale, growth_factor, backoff_factor, growth_interval, _growth_tracker). Throw for an option out
// of range, and for a missing key before anything changes.
LossScalePolicy torch_loss_scale_policy(const GradScalerOptions& options);
LossScaler torch_loss_scaler(const GradScalerOptions& options);
std::map<std::string, double> torch_state(const GradScalerOptions& options,
                                          const LossScaler& scaler);
void load_torch_state(const std::map<std::string, double>& state, GradScalerOptions& options,
                      LossScaler& scaler);

// The result of GradScaler::step, read from the device on request.
class ScaledStepReport {
 public:
  explicit ScaledStepReport(Tensor found_inf = {}) : found_inf_(std::move(found_inf)) {}
  // True if a gradient was not finite, so that nothing changed.
  bool skipped() const { return found_inf_.defined() && found_inf_.item() != 0; }

 private:
  Tensor found_inf_;
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  // Returns loss * scale, on the tape.
  Tensor scale(const Tensor& loss);
  // Multiplies the optimizer's gradients by 1 / scale in memory and notes whether all are finite.
  // Throws if scale() was never called, if called twice or after step, and for an f16 gradient (by
  // name).
  void unscale_(Optimizer& optimizer);
  // Steps unless a gradient is not finite. True gradients remain in memory, whether or not
  // unscale_() was called. f16 gradients are allowed without unscale_(): the step reads them
  // scaled, and small ones become 0 in memory only after it. Throws if scale() was never called, if
  // called twice since update(), and if the optimizer has no gradient.
  ScaledStepReport step(Optimizer& optimizer);
  // Grows the scale or backs off. Throws if no optimizer's gradients were checked since the last
  // update.
  void update();
  // Sets the scale; counters stay. Throws unless it is a finite number > 0.
  void update(double new_scale);

  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }
  // Not checked, as in torch.
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t steps);

  // --- these wait for the device
  double get_scale() const;
  int64_t growth_tracker() const;
  // What was refused since the start and why, or "".
  std::string diagnosis() const { return scaler_.diagnosis(); }
  // torch's keys; empty if disabled.
  std::map<std::string, double> state_dict() const;
  // Loads all values or none; throws if a key is missing.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  enum class Stage { ready, unscaled, stepped };
  struct Entry {
    Optimizer optimizer;
    Stage stage = Stage::ready;
    Tensor found_inf;
  };

  Entry& entry(const Optimizer& optimizer);
  void check_started(const char* call) const;
  void begin(const char* call, Optimizer& optimizer);
  void check_gradients(const Parameters& with_grad) const;
  void step_scaled(Optimizer& optimizer, Entry& mine);
  void follow_options();

  GradScalerOptions options_;
  LossScaler scaler_;
  std::vector<Entry> entries_;
};

}  // namespace booster
