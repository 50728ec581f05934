#include "core/nn/rotary.h"

#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/attention_method.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

namespace booster {
namespace {

constexpr double full_turn = 2 * std::numbers::pi;

std::vector<double> plain_frequencies(int64_t size, double theta) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < size / 2; ++i)
    frequencies.push_back(std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(size)));
  return frequencies;
}

double original_positions(const RotaryOptions& options) {
  return static_cast<double>(options.original_positions.value_or(options.max_positions));
}

// theta for a text longer than the model was made for.
double dynamic_theta(int64_t size, const RotaryOptions& options, int64_t tokens) {
  const double most = static_cast<double>(options.max_positions);
  const double stretch = std::max(static_cast<double>(tokens), most) / most;
  const double power = static_cast<double>(size) / static_cast<double>(size - 2);
  return options.theta * std::pow(options.factor * stretch - (options.factor - 1), power);
}

// Waves longer than the original text are stretched, short ones are not, and between them the two
// are mixed.
double llama3_frequency(double frequency, const RotaryOptions& options) {
  const double wave = full_turn / frequency, text = original_positions(options);
  if (wave < text / options.high_freq_factor) return frequency;
  if (wave > text / options.low_freq_factor) return frequency / options.factor;
  const double part = (text / wave - options.low_freq_factor) /
                      (options.high_freq_factor - options.low_freq_factor);
  return (1 - part) * frequency / options.factor + part * frequency;
}

// The pair of features that turns `turns` times within the original text.
double pair_of_turns(double turns, int64_t size, const RotaryOptions& options) {
  return static_cast<double>(size) * std::log(original_positions(options) / (turns * full_turn)) /
         (2 * std::log(options.theta));
}

void scale_by_yarn(std::vector<double>& frequencies, int64_t size, const RotaryOptions& options) {
  double low = pair_of_turns(options.beta_fast, size, options);
  double high = pair_of_turns(options.beta_slow, size, options);
  if (options.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(size - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / options.factor + (1 - stretched);
  }
}

double yarn_scale(double factor, double weight = 1) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

// The tables' view (batch, tokens, size / 2), where all texts may share one.
kernels::View angles_view(const Tensor& table, int64_t batch) {
  const Tensor all = table.ndim() == 3 ? table : untracked::unsqueeze(table, 0);
  return untracked::expand(all, {batch, all.size(1), all.size(2)}).view();
}

// The tables by recorded ops, which an ONNX file can compute for any number of tokens.
RotaryTables recorded_tables(const std::vector<float>& frequencies, double amplitude, int64_t first,
                             int64_t tokens, Device device) {
  const NoGradGuard no_grad;
  const PolicyScope in_f32(nullptr);
  std::vector<float> positions;
  for (int64_t i = first; i < first + tokens; ++i) positions.push_back(static_cast<float>(i));
  const auto size = static_cast<int64_t>(frequencies.size());
  const Tensor angles = from_vector(positions, {tokens, 1}).to(device) *
                        from_vector(frequencies, {1, size}).to(device);
  return {cos(angles) * amplitude, sin(angles) * amplitude};
}

// Turns by recorded ops.
Tensor recorded_turn(const Tensor& x, const RotaryTables& tables) {
  const auto by_head = [](const Tensor& table) {
    return table.ndim() == 3 ? unsqueeze(table, 1) : table;
  };
  const Tensor cosines = by_head(tables.cosines), sines = by_head(tables.sines);
  const int64_t half = x.size(3) / 2;
  const Tensor a = narrow(x, 3, 0, half), b = narrow(x, 3, half, half);
  return cat({a * cosines - b * sines, b * cosines + a * sines}, 3);
}

// Turns by the angles, or back.
Tensor turned(const Tensor& x, const RotaryTables& tables, bool back) {
  const Tensor from = x.strides()[3] == 1 ? x : untracked::contiguous(x), y = heads_like(x);
  kernels::on(x.device())
      .rotary(y.view(), from.view(), angles_view(tables.cosines, x.size(0)),
              angles_view(tables.sines, x.size(0)), back);
  return record(y, "rotate", {x}, twice([tables, back](const Tensor& g, Gradients& d) {
                  d[0] = turned(g, tables, !back);
                }));
}

}  // namespace

std::vector<std::string> rotary_scalings() {
  return {"default", "linear", "dynamic", "llama3", "yarn"};
}

void check_rotary(const RotaryOptions& options) {
  const auto kinds = rotary_scalings();
  check(std::ranges::find(kinds, options.scaling) != kinds.end(),
        "rotary embedding: unknown scaling; got {}{}", options.scaling,
        legal_names(options.scaling, kinds));
  check(options.theta > 1, "rotary embedding: theta; got {}, want more than 1", options.theta);
  check(options.factor >= 1, "rotary embedding: factor; got {}, want 1 or more", options.factor);
  check(options.scaling != "llama3" || options.high_freq_factor > options.low_freq_factor,
        "rotary embedding: high_freq_factor; got {}, want more than low_freq_factor, {}",
        options.high_freq_factor, options.low_freq_factor);
}

void check_rotary_size(int64_t size) {
  check(size > 2 && size % 2 == 0,
        "rotary embedding: size of a head; got {}, want an even number above 2", size);
}

std::vector<float> rotary_frequencies(int64_t size, const RotaryOptions& options, int64_t tokens) {
  const double theta =
      options.scaling == "dynamic" ? dynamic_theta(size, options, tokens) : options.theta;
  std::vector<double> frequencies = plain_frequencies(size, theta);
  if (options.scaling == "linear")
    for (double& frequency : frequencies) frequency /= options.factor;
  if (options.scaling == "llama3")
    for (double& frequency : frequencies) frequency = llama3_frequency(frequency, options);
  if (options.scaling == "yarn") scale_by_yarn(frequencies, size, options);
  return {frequencies.begin(), frequencies.end()};
}

double rotary_amplitude(const RotaryOptions& options) {
  if (options.scaling != "yarn") return 1;
  if (options.attention_factor) return *options.attention_factor;
  if (options.mscale.value_or(0) != 0 && options.mscale_all_dim.value_or(0) != 0)
    return yarn_scale(options.factor, *options.mscale) /
           yarn_scale(options.factor, *options.mscale_all_dim);
  return yarn_scale(options.factor);
}

struct Rotary::Last {
  std::mutex mutex;
  int64_t first = -1, tokens = -1;
  RotaryTables tables;
};

Rotary::Rotary(int64_t size, RotaryOptions options)
    : size_(size), options_(std::move(options)), last_(std::make_unique<Last>()) {
  check_rotary_size(size_);
  check_rotary(options_);
}

Rotary::~Rotary() = default;

RotaryTables Rotary::tables(int64_t first, int64_t tokens, Device device) const {
  const std::lock_guard lock(last_->mutex);
  const bool known = last_->first == first && last_->tokens == tokens &&
                     last_->tables.cosines.device() == device && !op_recorder;
  if (known) return last_->tables;
  const std::vector<float> frequencies = rotary_frequencies(size_, options_, first + tokens);
  const double amplitude = rotary_amplitude(options_);
  if (op_recorder) return recorded_tables(frequencies, amplitude, first, tokens, device);
  std::vector<float> cosines, sines;
  for (int64_t position = first; position < first + tokens; ++position)
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;  // rounded as in torch
      cosines.push_back(static_cast<float>(std::cos(double{angle}) * amplitude));
      sines.push_back(static_cast<float>(std::sin(double{angle}) * amplitude));
    }
  const Shape shape = {tokens, size_ / 2};
  last_->tables = {from_vector(cosines, shape).to(device), from_vector(sines, shape).to(device)};
  last_->first = first;
  last_->tokens = tokens;
  return last_->tables;
}

RotaryTables tables_at(const RotaryTables& tables, const Tensor& positions) {
  const NoGradGuard no_grad;
  const Tensor each = reshape(positions, {positions.numel()});
  const auto rows = [&](const Tensor& table) {
    return reshape(index_select(table, 0, each),
                   {positions.size(0), positions.size(1), table.size(1)});
  };
  return {rows(tables.cosines), rows(tables.sines)};
}

Tensor rotate(const Tensor& x, const RotaryTables& tables) {
  arguments::floating("rotate", "x", x);
  const Shape& shape = tables.cosines.shape();
  const bool fits = x.ndim() == 4 && x.size(3) % 2 == 0 && tables.sines.shape() == shape &&
                    (shape == Shape{x.size(2), x.size(3) / 2} ||
                     shape == Shape{x.size(0), x.size(2), x.size(3) / 2});
  if (!fits)
    fail(
        "rotate: shapes differ; got x {} and tables {}, want (batch, heads, tokens, size) and "
        "([batch,] tokens, size / 2)",
        x.shape(), shape);
  return op_recorder ? recorded_turn(x, tables) : turned(x, tables, false);
}

}  // namespace booster
