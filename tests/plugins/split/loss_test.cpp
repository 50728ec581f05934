// Cross entropy of logits whose classes are split over ranks. It agrees with one process, whatever
// else a program does with the logits; if it does nothing else, the whole logits are never made.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/tensor/absence.h"
#include "core/tensor/computed_on_use.h"
#include "core/tensor/random/random.h"
#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"
#include "parallel/mesh.h"
#include "plugins/tensor/rank_split.h"
#include "tests/draws.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

enum class Use { nothing, read_before, read_behind, second_loss, overwrite, cast, count };

struct Case {
  int64_t rows, classes, in;
  bool is_computed_on_use, is_weighted, on_two_axes;
  double smoothing;
  Reduction reduction;
  DType dtype;
  Use use;
};

Case drawn_case(std::mt19937& random, int ranks) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
  const DType dtypes[] = {DType::f32, DType::f32, DType::f64, DType::bf16};
  return {1 + below(6), ranks + below(9), 1 + below(5), below(3) == 0,
          below(2) == 0, below(2) == 0, below(2) * 0.1, reductions[below(3)],
          dtypes[below(4)], static_cast<Use>(below(static_cast<int64_t>(Use::count)))};
}

struct Found {
  std::vector<double> loss, dx, dweight, dbias;
  bool stayed_apart = false;
  bool stayed_unread = false;  // not even this rank's logits were computed
};

// Runs with the whole weight, or with this rank's classes, `here`.
Found run(const Case& one, unsigned seed, ElementRange here,
          std::shared_ptr<const LayerSplit> split) {
  Generator generator(seed);
  const auto draw = [&](const Shape& shape) {
    return untracked::cast(uniform(shape, -2, 2, {}, generator), one.dtype);
  };
  const auto leaf = [](const Tensor& x) { return x.clone().requires_grad_(); };
  const Tensor x = leaf(draw({one.rows, 2, one.in}));
  const Tensor all_weight = draw({one.classes, one.in}), all_bias = draw({one.classes});
  const Tensor weight = leaf(untracked::narrow(all_weight, 0, here.begin, here.size())),
               bias = leaf(untracked::narrow(all_bias, 0, here.begin, here.size()));
  set_layer_split(weight, std::move(split));
  std::vector<int64_t> wanted;
  std::mt19937 random(seed);
  for (int64_t i = 0; i < 2 * one.rows; ++i)
    wanted.push_back(random() % 4 == 0 ? -100 : static_cast<int64_t>(random() % one.classes));
  const Tensor target = from_vector(wanted, {2 * one.rows});
  const Tensor class_weight = add(uniform({one.classes}, 0, 1, {}, generator), 0.1);
  const CrossEntropyOptions options = {.weight = one.is_weighted ? class_weight : Tensor(),
                                       .label_smoothing = one.smoothing,
                                       .reduction = one.reduction};

  Tensor logits = one.is_computed_on_use ? linear_on_use(x, weight, bias) : linear(x, weight, bias);
  Found found;
  if (one.use == Use::overwrite) {
    const NoGradGuard no_grad;
    logits.mul_(0.5);
  }
  if (one.use == Use::cast) logits = cast(logits, DType::f32);
  Tensor loss;
  if (one.use == Use::read_before) loss = sum(argmax(logits, -1)) * 0.0;
  const Tensor rows = one.on_two_axes ? flatten(logits, 0, 1) : reshape(logits, {-1, one.classes});
  Tensor each = cross_entropy(rows, target, options);
  found.stayed_apart = !has_memory(logits);
  found.stayed_unread = recipe_of(spread_columns(logits).part) != nullptr;
  if (one.use == Use::read_behind) each = each + sum(argmax(logits, -1)).item() * 0.0;
  Tensor total = sum(each);
  if (one.use == Use::second_loss) total = total + cast(sum(logits * logits), total.dtype());
  backward(total);
  found.loss = each.to_vector<double>();
  found.dx = x.grad().to_vector<double>();
  found.dweight = weight.grad().to_vector<double>();
  found.dbias = bias.grad().to_vector<double>();
  return found;
}

std::vector<double> own(const std::vector<double>& whole, ElementRange rows, int64_t each) {
  return {whole.begin() + rows.begin * each, whole.begin() + rows.end * each};
}

void check_near(const char* what, const std::vector<double>& got, const std::vector<double>& want,
                DType dtype) {
  INFO(what);
  REQUIRE(got.size() == want.size());
  double largest = 1e-3;
  for (const double number : want)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  const double tolerance = largest * (dtype == DType::bf16 ? 3e-2 : 1e-5);
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = std::isnan(want[i]) ? std::isnan(got[i])
                                          : std::abs(got[i] - want[i]) <= tolerance;
    CHECK_MESSAGE(same, got[i] << ", want " << want[i]);
  }
}

void check_losses() {
  const Group world = launch_from_env().group();
  size_t apart = 0;
  const std::vector<unsigned> seeds = testing::draws(400);
  for (const unsigned seed : seeds) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Case one = drawn_case(random, world.size());
    CAPTURE(one.classes);
    CAPTURE(static_cast<int>(one.use));
    const RankParts parts{one.classes, world.size()};
    if (parts.of(world.size() - 1).size() == 0) continue;
    const ElementRange here = parts.of(world.rank());
    const Found want = run(one, seed, {0, one.classes}, nullptr);
    const Found got = run(one, seed, here,
                          std::make_shared<RankSplit>(world, LayerSplit::Result::spread,
                                                      one.classes, SplitStreams()));
    apart += got.stayed_apart;
    const bool may_stay = one.use != Use::read_before && one.use != Use::overwrite;
    CHECK(got.stayed_apart == may_stay);
    CHECK(got.stayed_unread ==
          (may_stay && one.is_computed_on_use && one.reduction != Reduction::none));
    check_near("loss", got.loss, want.loss, one.dtype);
    check_near("gradient of x", got.dx, want.dx, one.dtype);
    check_near("gradient of weight", got.dweight, own(want.dweight, here, one.in), one.dtype);
    check_near("gradient of bias", got.dbias, own(want.dbias, here, 1), one.dtype);
  }
  CHECK(apart > seeds.size() / 4);
}

// Checks a loss that is computed by several turns on ranks of unequal parts.
void check_turns() {
  const Group world = launch_from_env().group();
  const Case one = {.rows = 40,
                    .classes = 500'001,
                    .in = 1,
                    .is_computed_on_use = true,
                    .is_weighted = true,
                    .on_two_axes = true,
                    .smoothing = 0.1,
                    .reduction = Reduction::mean,
                    .dtype = DType::f32,
                    .use = Use::nothing};
  const ElementRange here = RankParts{one.classes, world.size()}.of(world.rank());
  const Found want = run(one, 1, {0, one.classes}, nullptr);
  const Found got = run(
      one, 1, here,
      std::make_shared<RankSplit>(world, LayerSplit::Result::spread, one.classes, SplitStreams()));
  CHECK(got.stayed_unread);
  check_near("loss", got.loss, want.loss, one.dtype);
  check_near("gradient of x", got.dx, want.dx, one.dtype);
  check_near("gradient of weight", got.dweight, own(want.dweight, here, one.in), one.dtype);
}

// Checks that one row of logits gives the same result on ranks as in one process.
void check_row(const std::vector<float>& logits) {
  const Group world = launch_from_env().group();
  const Tensor whole = from_vector<float>(logits, {1, 4}).requires_grad_();
  const Tensor target = from_vector<int64_t>({1}, {1});
  const ElementRange here = RankParts{4, world.size()}.of(world.rank());
  const Tensor x = ones({1, 1}).requires_grad_();
  const Tensor weight =
      untracked::reshape(untracked::narrow(whole, 1, here.begin, here.size()), {here.size(), 1})
          .clone()
          .requires_grad_();
  set_layer_split(weight, std::make_shared<RankSplit>(world, LayerSplit::Result::spread, 4,
                                                      SplitStreams()));
  const Tensor got = cross_entropy(linear(x, weight), target), want = cross_entropy(whole, target);
  CHECK(got.item() == doctest::Approx(want.item()));
  backward(got);
  backward(want);
  check_near("gradient", weight.grad().to_vector<double>(),
             own(whole.grad().to_vector<double>(), here, 1), DType::f32);
}

}  // namespace

TEST_CASE("rank: split loss" * doctest::skip()) {
  check_losses();
  check_turns();
  check_row({1, 2, -INFINITY, -INFINITY});  // all classes of one rank are masked
  check_row({-1e20f, -1e20f, -1e20f, -1e20f});
}

TEST_CASE("cross entropy of classes on 2 ranks is that of one process") {
  run_ranks("rank: split loss", 2);
}
TEST_CASE("cross entropy of classes on 3 ranks is that of one process") {
  run_ranks("rank: split loss", 3);
}
