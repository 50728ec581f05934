#include "plugins/batch_agreement.h"

#include "core/tensor/computed_on_use.h"
#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace booster {

namespace {

const std::vector<std::string> shared_axes = {"pipeline", "sequence", "tensor"};

// A mark holds the facts about a tensor that ranks compare: dtype, number of dimensions, sizes,
// tolerance, and some values. An undefined tensor's mark is all zeros.
constexpr size_t form_size = 2 + kernels::max_dims, room_at = form_size, numbers_at = room_at + 1,
                 most_numbers = 64, mark_size = numbers_at + most_numbers;

// Takes values evenly spread over the tensor, but not along image edges, which may be padding.
std::vector<double> some_numbers(const Tensor& x) {
  constexpr double golden = 0.618;
  const auto most = static_cast<int64_t>(most_numbers);
  const int64_t each = std::max<int64_t>(x.numel() / most, 1), count = std::min(x.numel(), most);
  if (count == 0) return {};
  const Tensor flat = untracked::reshape(untracked::contiguous(x.detach()), {-1});
  const Tensor runs =
      untracked::reshape(untracked::narrow(flat, 0, 0, count * each), {count, each});
  const auto column = static_cast<int64_t>(golden * static_cast<double>(each));
  return untracked::contiguous(untracked::select(runs, 1, column)).to(Device{}).to_vector<double>();
}

void write_mark(const Tensor& x, std::span<double> mark) {
  if (!x.defined()) return;
  mark[0] = 1 + static_cast<double>(x.dtype());
  mark[1] = x.ndim();
  for (int i = 0; i < x.ndim(); ++i)
    mark[static_cast<size_t>(2 + i)] = static_cast<double>(x.size(i));
  if (spread_columns(x).part.defined()) return;  // ranks have other columns
  if (recipe_of(x)) return;                      // nothing needs the whole yet
  constexpr double rounding = 1e-3;
  double largest = 0;
  size_t at = numbers_at;
  for (const double number : some_numbers(x)) {
    mark[at++] = number;
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  if (is_floating(x.dtype())) mark[room_at] = rounding * largest;
}

// Returns how two marks differ; "" if they do not.
std::string difference(std::span<const double> a, std::span<const double> b) {
  if (!std::ranges::equal(a.first(form_size), b.first(form_size))) return "shape or dtype";
  for (size_t i = numbers_at; i < mark_size; ++i) {
    const bool are_same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                          std::abs(a[i] - b[i]) <= a[room_at];
    if (!are_same) return "numbers";
  }
  return "";
}

// The first message begins with fingerprints of the names of inputs and targets.
constexpr size_t first_mark = 2;

// Returns a whole number that a double holds exactly.
double fingerprint_of(const Tensors& x) {
  uint64_t hash = x.size();
  for (const auto& [name, tensor] : x)
    for (const char letter : name + '\n')
      hash = (hash * 31 + static_cast<uint8_t>(letter)) % 1'000'000'007;
  return static_cast<double>(hash);
}

}  // namespace

BatchAgreement::BatchAgreement(const Mesh& mesh)
    : mesh_(mesh), ranks_(mesh.joint_group(shared_axes)) {}

void BatchAgreement::check_same(const Tensors& input, const Tensors& target) {
  if (ranks_.size() == 1 || (has_looked_ && input.device().type != DeviceType::cpu)) return;
  has_looked_ = true;
  const NoGradGuard no_grad;
  const std::vector<Tensor> inputs = input.all(), targets = target.all();
  const auto first = [](const std::vector<Tensor>& all) { return all.empty() ? Tensor() : all[0]; };
  std::vector<double> own(first_mark + 2 * mark_size);
  own[0] = fingerprint_of(input);
  own[1] = fingerprint_of(target);
  write_mark(first(inputs), std::span(own).subspan(first_mark, mark_size));
  write_mark(first(targets), std::span(own).last(mark_size));
  compare(own, {"input", "target"});
  std::vector<double> rest;
  std::vector<std::string> names;
  for (const auto& [all, what] : {std::pair(&input, "input"), std::pair(&target, "target")})
    for (size_t i = 1; i < all->size(); ++i) {
      const auto& [name, tensor] = *(all->begin() + static_cast<int64_t>(i));
      names.push_back(fmt::format("{} {}", what, name));
      rest.resize(rest.size() + mark_size);
      write_mark(tensor, std::span(rest).last(mark_size));
    }
  if (!rest.empty()) compare(rest, names);
}

void BatchAgreement::compare(Marks own, const std::vector<std::string>& names) const {
  const size_t size = own.size(), start = size - names.size() * mark_size;
  Marks all(size * static_cast<size_t>(ranks_.size()));
  ranks_.all_gather(all, own);
  const std::vector<int> places = mesh_.axes().ranks_along(mesh_.world().rank(), shared_axes);
  const auto check_equal = [&](size_t rank, const std::string& name, const std::string& what) {
    check(what.empty(),
          "hybrid_parallel: ranks that share a batch have different ones; got another {} on {} "
          "than on {} ({}), want a batch that depends only on the place along data "
          "(prepare_dataloader), with the same augmentation on these ranks",
          name, mesh_.describe(places[rank]), mesh_.describe(places[0]), what);
  };
  for (size_t rank = 1; rank < places.size(); ++rank)
    for (size_t i = 0; i < names.size(); ++i) {
      const double* theirs = all.data() + rank * size;
      if (start > 0 && theirs[i] != all[i]) check_equal(rank, names[i], "names");
      const auto mark_of = [&](const double* marks) {
        return std::span<const double>(marks + start + i * mark_size, mark_size);
      };
      check_equal(rank, names[i], difference(mark_of(all.data()), mark_of(theirs)));
    }
}

}  // namespace booster
