#include "plugins/batch_agreement.h"

#include "core/tensor/computed_on_use.h"
#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <span>

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

}  // namespace

BatchAgreement::BatchAgreement(const Mesh& mesh)
    : mesh_(mesh), ranks_(mesh.joint_group(shared_axes)) {}

void BatchAgreement::check_same(const Tensor& input, const Tensor& target) {
  if (ranks_.size() == 1 || (has_looked_ && input.device().type != DeviceType::cpu)) return;
  has_looked_ = true;
  const NoGradGuard no_grad;
  const size_t size = 2 * mark_size;
  std::vector<double> own(size), all(size * static_cast<size_t>(ranks_.size()));
  write_mark(input, std::span(own).first(mark_size));
  write_mark(target, std::span(own).last(mark_size));
  ranks_.all_gather(all, own);
  const std::vector<int> places = mesh_.axes().ranks_along(mesh_.world().rank(), shared_axes);
  for (size_t rank = 1; rank < places.size(); ++rank)
    for (const size_t part : {size_t{0}, mark_size}) {
      const auto mark_of = [&](size_t i) {
        return std::span<const double>(all).subspan(i * size + part, mark_size);
      };
      const std::string what = difference(mark_of(0), mark_of(rank));
      check(what.empty(),
            "hybrid_parallel: ranks that share a batch have different ones; got another {} on {} "
            "than on {} ({}), want a batch that depends only on the place along data "
            "(prepare_dataloader), with the same augmentation on these ranks",
            part == 0 ? "input" : "target", mesh_.describe(places[rank]), mesh_.describe(places[0]),
            what);
    }
}

}  // namespace booster
