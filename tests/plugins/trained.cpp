#include "tests/plugins/trained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace booster::testing {

namespace {

double norm_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Returns the distance of `got` from `want`, relative to what training changed from `start` (0 for
// optimizer state). Also allows for rounding, in f32 over some steps: for a scale near 1 that
// hardly changes, it covers most digits of the change.
double distance(const std::vector<double>& got, const std::vector<double>& want,
                const std::vector<double>& start, DType dtype) {
  const double rounding = dtype == DType::f16    ? 0x1p-11
                          : dtype == DType::bf16 ? 0x1p-8
                          : dtype == DType::f64  ? 0x1p-51
                                                 : 0x1p-22;
  const std::vector<double> zero(want.size());
  const double apart = norm_of(got, want) - rounding * norm_of(want, zero);
  return std::max(apart, 0.0) / (norm_of(want, start) + 1e-18);
}

// A mean of gradients is a cancelling sum: in 16 bits its error is larger than the weights' error.
bool is_moment(const std::string& name) {
  return name.ends_with("exp_avg") || name.ends_with("exp_avg_sq") ||
         name.ends_with("momentum_buffer");
}

template <class T>
std::vector<T> numbers_of_rank_0(const Group& world, std::vector<T> numbers) {
  std::vector<int64_t> count = {static_cast<int64_t>(numbers.size())};
  world.broadcast(count);
  numbers.resize(static_cast<size_t>(count[0]));
  if (count[0] > 0) world.broadcast(numbers);
  return numbers;
}

StateDict state_of_rank_0(const Group& world, const StateDict& state) {
  std::string list;  // names have no spaces
  for (const auto& [name, tensor] : state)
    list += fmt::format("{} {} {} {}\n", name, static_cast<int>(tensor.dtype()), tensor.ndim(),
                        fmt::join(tensor.shape(), " "));
  const auto letters = numbers_of_rank_0(world, std::vector<uint8_t>(list.begin(), list.end()));
  std::istringstream words(std::string(letters.begin(), letters.end()));
  StateDict shared;
  std::string name;
  for (int dtype = 0, dims = 0; words >> name >> dtype >> dims;) {
    std::vector<int64_t> shape(static_cast<size_t>(dims));
    for (int64_t& size : shape) words >> size;
    Tensor tensor = zeros(shape, {.dtype = static_cast<DType>(dtype)});
    if (world.rank() == 0) tensor.copy_(state[shared.size()].tensor);
    if (tensor.numel() > 0) world.broadcast(tensor);
    shared.push_back({name, tensor});
  }
  return shared;
}

}  // namespace

Trained of_rank_0(const Group& world, const Trained& trained) {
  std::vector<uint8_t> exact(trained.is_exact.begin(), trained.is_exact.end());
  exact = numbers_of_rank_0(world, exact);
  return {.told = numbers_of_rank_0(world, trained.told),
          .is_exact = {exact.begin(), exact.end()},
          .start = state_of_rank_0(world, trained.start),
          .state = state_of_rank_0(world, trained.state),
          .scales = state_of_rank_0(world, trained.scales)};
}

const Tensor* find(const StateDict& state, const std::string& name) {
  for (const NamedTensor& held : state)
    if (held.name == name) return &held.tensor;
  return nullptr;
}

StateDict held_here(StateDict state) {
  std::erase_if(state, [](const NamedTensor& one) { return one.tensor.numel() == 0; });
  return state;
}

std::string different_bits(const StateDict& got, const StateDict& want) {
  if (got.size() != want.size()) return "other tensors";
  for (const auto& [name, tensor] : want) {
    const Tensor* found = find(got, name);
    if (!found || found->dtype() != tensor.dtype() || found->shape() != tensor.shape()) return name;
    const Tensor a = found->to(Device{}), b = tensor.to(Device{});
    if (std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) != 0) return name;
  }
  return "";
}

std::string compare(const StateDict& got, const Trained& want, const StateDict& wanted,
                    double tolerance, double deeper, double& worst) {
  if (got.size() != wanted.size())
    return fmt::format("{} tensors, want {}", got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const Tensor* found = find(got, name);
    if (!found) return name + " is missing";
    if (found->shape() != tensor.shape() || found->dtype() != tensor.dtype())
      return fmt::format("{}: {} {}, want {} {}", name, name_of(found->dtype()), found->shape(),
                         name_of(tensor.dtype()), tensor.shape());
    if (name.ends_with("compensation")) continue;  // digits lost to rounding
    const auto values = tensor.to_vector<double>();
    const Tensor* start = find(want.start, name);
    const bool same = start && start->shape() == tensor.shape();
    const auto from = same ? start->to_vector<double>() : std::vector<double>(values.size());
    const double far = distance(found->to_vector<double>(), values, from, tensor.dtype());
    worst = std::max(worst, far);
    const double most = is_moment(name) ? tolerance * deeper : tolerance;
    if (!(far <= most)) return fmt::format("{} is {} of its change away, want {}", name, far, most);
  }
  return "";
}

std::string compare_told(const Trained& got, const Trained& want, double tolerance, double& worst) {
  for (size_t i = 0; i < want.told.size(); ++i) {
    const double a = got.told[i], b = want.told[i];
    const double far = a == b ? 0 : std::abs(a - b) / std::abs(b);
    worst = std::max(worst, far);
    if (want.is_exact[i] ? a != b : !(far <= tolerance))
      return fmt::format("number {} of step {}: got {}, want {}", i % 6, i / 6, a, b);
  }
  return "";
}

std::string compare_ranks(const Group& world, const Trained& got, bool with_scales) {
  std::vector<double> mine = got.told;
  for (const NamedTensor& scale : with_scales ? got.scales : StateDict{})
    for (const double number : scale.tensor.to_vector<double>()) mine.push_back(number);
  std::vector<double> of_rank_0 = mine;
  world.broadcast(of_rank_0);
  return mine == of_rank_0 ? "" : "ranks tell different things; ";
}

}  // namespace booster::testing
