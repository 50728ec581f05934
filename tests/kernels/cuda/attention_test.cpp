// Attention and its gradients on a GPU against the CPU's attention of the same values in double
// precision. Matrix units compute 16-bit tensors in tiles; matrix products compute all others. In
// the CPU emulator of CUDA, attention by products is cut into parts of 32 KB
// (kernels/cuda/attention/head_chunks.h).
#include "tests/kernels/cuda/compare.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

// dense: rows one after another. packed: rows of a Linear that computes queries, keys and values at
// once. odd: rows that no 16-byte access fits.
enum class Layout { dense, packed, odd };
enum class MaskKind { none, added, boolean, per_head };

struct Case {
  DType dtype = DType::bf16;
  int64_t batch = 1, heads = 2, queries = 17, keys = 70, size = 64;
  Layout layout = Layout::packed;
  MaskKind mask = MaskKind::none;
  bool causal = false;
  double dropout = 0;
  std::optional<double> given_scale = {};
  DType mask_dtype = DType::f32;  // of an added one
  bool mixed = false;             // tensors have different dtypes; `dtype` is the queries'

  DType of_tensor(int which) const {  // q, k, v and g
    constexpr DType others[] = {DType::bf16, DType::f16, DType::f64};
    return mixed && which > 0 ? others[which - 1] : dtype;
  }
  double scale() const {
    return given_scale.value_or(1 / std::sqrt(static_cast<double>(std::max<int64_t>(size, 1))));
  }
  Index of_queries() const { return {batch, heads, queries, size}; }
  Index of_keys() const { return {batch, heads, keys, size}; }
  std::string text() const {
    return std::string(name_of(dtype)) + " (" + std::to_string(batch) + ", " +
           std::to_string(heads) + ", " + std::to_string(queries) + " of " + std::to_string(keys) +
           ", " + std::to_string(size) + "), layout " + std::to_string(static_cast<int>(layout)) +
           ", mask " + std::to_string(static_cast<int>(mask)) + " of " + name_of(mask_dtype) +
           (causal ? ", causal" : "") + (mixed ? ", mixed" : "") + ", dropout " +
           std::to_string(dropout);
  }
};

Index strides_of(const Index& shape, Layout layout) {
  if (layout == Layout::dense) return contiguous_strides(shape);
  const int64_t row = shape[3] + (layout == Layout::odd ? 3 : 0);
  const int64_t token = shape[1] * row * (layout == Layout::packed ? 3 : 1);
  return {shape[2] * token, row, token, 1};
}

Plain normal(DType dtype, const Index& shape, Layout layout, uint32_t seed) {
  Plain tensor(dtype, shape, strides_of(shape, layout));
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw;
  for_each_index(shape, [&](const Index& index) { tensor.set(index, draw(engine)); });
  return tensor;
}

Plain mask_of(const Case& c) {
  std::mt19937 engine(9);
  if (c.mask == MaskKind::boolean) {  // padding keys
    Plain mask = zeros(DType::boolean, {c.batch, 1, 1, c.keys});
    for_each_index(mask.shape, [&](const Index& index) { mask.set(index, engine() % 4 != 0); });
    return mask;
  }
  const bool per_head = c.mask == MaskKind::per_head;
  Plain mask = random(per_head ? DType::bf16 : c.mask_dtype,
                      per_head ? Index{c.heads, c.queries, c.keys} : Index{c.queries, c.keys}, 9);
  for_each_index(mask.shape, [&](const Index& index) {
    const int64_t query = index[index.size() - 2];
    if (engine() % 5 == 0 || query == 3) mask.set(index, -INFINITY);  // query 3 sees nothing
  });
  return mask;
}

struct Inputs {
  explicit Inputs(const Case& c)
      : all{normal(c.dtype, c.of_queries(), c.layout, 1),
            normal(c.of_tensor(1), c.of_keys(), c.layout, 2),
            normal(c.of_tensor(2), c.of_keys(), c.layout, 3),
            normal(c.of_tensor(3), c.of_queries(), Layout::dense, 4), mask_of(c)} {}
  std::vector<Plain> all;
  Plain &q = all[0], &g = all[3];
};

using Results = std::vector<Plain>;  // out, log_sum, dq, dk, dv
const char* const result_names[] = {"out", "log_sum", "dq", "dk", "dv"};

// Returns unwritten outputs. The first has g's dtype.
Results unwritten_results(const Case& c, Layout layout) {
  const Index log_sums = {c.batch, c.heads, c.queries, 2};
  const auto of = [](DType type, const Index& shape, const Index& strides) {
    Plain tensor(type, shape, strides);
    tensor.fill_bytes(0xFF);
    return tensor;
  };
  const Index queries = strides_of(c.of_queries(), layout), keys = strides_of(c.of_keys(), layout);
  return {of(c.of_tensor(3), c.of_queries(), queries),
          of(wide(c.dtype), log_sums, contiguous_strides(log_sums)),
          of(c.dtype, c.of_queries(), queries), of(c.of_tensor(1), c.of_keys(), keys),
          of(c.of_tensor(2), c.of_keys(), keys)};
}

constexpr RandomPosition position = {7, 100};

void attend(const Table& table, const Case& c, const std::vector<View>& in,
            const std::vector<View>& out) {
  const View mask = c.mask == MaskKind::none ? View{} : in[4];
  table.attention(out[0], out[1], in[0], in[1], in[2], mask, c.scale(), c.causal, c.dropout,
                  position);
  table.attention_backward(out[2], out[3], out[4], in[3], in[0], in[1], in[2], out[0], out[1], mask,
                           c.scale(), c.causal, c.dropout, position);
}

Results on_the_gpu(const Case& c, const Inputs& in) {
  const Results outputs = unwritten_results(c, c.layout);
  const GpuCopies there(in.all), results(outputs);
  attend(on(gpu), c, there.views, results.views);
  Results got;
  for (size_t i = 0; i < outputs.size(); ++i) got.push_back(results.fetch(i, outputs[i]));
  return got;
}

Results in_double(Case c, const Inputs& in) {
  std::vector<Plain> inputs = in.all;
  for (int i = 0; i < 4; ++i)
    inputs[i] = from_numbers(DType::f64, inputs[i].shape, numbers(inputs[i]));
  c.dtype = DType::f64;
  c.mixed = false;
  const Results results = unwritten_results(c, Layout::dense);
  attend(on({}), c, views_of(inputs), views_of(results));
  return results;
}

// Returns the largest difference, relative to the largest value (at least `least`).
double difference(const Plain& got, const Plain& want, double least) {
  const Numbers a = numbers(got), b = numbers(want);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    worst = std::max(worst, std::abs(a[i] - b[i]));
    least = std::max(least, std::abs(b[i]));
  }
  return worst / least;
}

// Checks that the gaps between an output's rows are unchanged.
void check_gaps(const Plain& got) {
  Plain expected = got;
  expected.fill_bytes(0xFF);
  for_each_index(got.shape, [&](const Index& index) {
    std::copy_n(got.address(index), size_of(got.dtype), expected.address(index));
  });
  CHECK(*expected.bytes == *got.bytes);
}

// In tiles, a gradient has four roundings to 16 bits: of probabilities, of out (from which slopes
// are computed), of slopes and of the result. Each moves a result by at most the unit roundoff
// times the sum of its terms' magnitudes; for the largest result that is about its own size. These
// cases reach 0.95 roundoffs in out, 1.5 in dv, 2.8 in dq and dk. A score is a sum of up to 128
// products in f32 or f64; log_sum and everything derived from it are no more exact than that.
double most_difference(const Case& c, size_t result) {
  const double of_sums = 128 * (c.dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
  if (result == 1) return of_sums;
  if (c.mixed || c.dtype == DType::bf16) return 4 * 0x1p-8;
  return c.dtype == DType::f16 ? 4 * 0x1p-11 : of_sums;
}

void check_case(const Case& c) {
  CAPTURE(c.text());
  const Inputs in(c);
  const Results got = on_the_gpu(c, in), want = in_double(c, in), again = on_the_gpu(c, in);
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(std::string(result_names[i]));
    // If a query sees one key, its score's gradient cancels to 0 from rounded terms of size 1.
    const bool of_scores = i >= 1 && i <= 3;
    const double error = difference(got[i], want[i], of_scores ? 1 : 1e-30);
    CHECK(error < most_difference(c, i));
    CHECK(*again[i].bytes == *got[i].bytes);
    check_gaps(got[i]);
  }
}

void check_empty(DType dtype) {
  check_case({.dtype = dtype, .queries = 0});
  check_case({.dtype = dtype, .keys = 0});
  check_case({.dtype = dtype, .batch = 0});
  check_case({.dtype = dtype, .size = 0});
}

void check_all_dropped(DType dtype) {
  const Case c = {.dtype = dtype, .dropout = 1};
  const Results got = on_the_gpu(c, Inputs(c));
  for (const int i : {0, 2, 3, 4}) CHECK(numbers(got[i]) == Numbers(numbers(got[i]).size()));
}

void check_bad_numbers(DType dtype) {
  for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
    const Case c = {.dtype = dtype, .heads = 1, .queries = 20, .keys = 20, .size = 16};
    Inputs in(c);
    in.q.set({0, 0, 3, 2}, bad);
    Results got = on_the_gpu(c, in);
    CHECK(std::isnan(got[0].at({0, 0, 3, 0})));
    CHECK(std::isnan(got[3].at({0, 0, 0, 0})));
    CHECK(!std::isnan(got[0].at({0, 0, 2, 0})));
    Inputs clean(c);
    clean.g.set({0, 0, 3, 2}, bad);
    CHECK(!std::isfinite(on_the_gpu(c, clean)[4].at({0, 0, 0, 2})));
  }
}

// Returns a random one of `choices`.
class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  template <class... Choices>
  int64_t operator()(Choices... choices) {
    const std::array all = {static_cast<int64_t>(choices)...};
    return all[engine_() % all.size()];
  }
  int64_t up_to(int64_t most) { return 1 + static_cast<int64_t>(engine_()) % most; }

 private:
  std::mt19937 engine_;
};

Case drawn_case(Draw& draw) {
  Case c;
  c.batch = draw(1, 2);
  c.heads = draw(1, 3);
  c.queries = draw.up_to(draw(20, 80, 140));
  c.keys = draw.up_to(draw(20, 80, 140));
  c.layout = static_cast<Layout>(draw(Layout::dense, Layout::packed, Layout::odd));
  c.mask = static_cast<MaskKind>(draw(0, 1, 2, 3));
  c.causal = draw(0, 1) == 1;
  c.dropout = static_cast<double>(draw(0, 1, 2)) * 0.25;
  return c;
}

}  // namespace

TEST_CASE("GPU: attention by tiles has the tokens of an image model" * on_gpu()) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const double dropout : {0.0, 0.1})
      check_case({.dtype = dtype, .heads = 1, .queries = 197, .keys = 197, .dropout = dropout});
}

TEST_CASE("GPU: attention by tiles has heads of any size, tokens before a tile's end and behind" *
          on_gpu()) {
  const int64_t sizes[][3] = {{1, 1, 1},     {1, 65, 64},  {64, 64, 64}, {33, 1, 16},
                              {63, 33, 20},  {65, 31, 80}, {17, 32, 96}, {3, 97, 72},
                              {70, 66, 128}, {9, 20, 130}};  // the last size does not use tiles
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const auto& [queries, keys, size] : sizes)
      check_case({.dtype = dtype, .queries = queries, .keys = keys, .size = size});
}

TEST_CASE("GPU: attention by tiles has as many tokens as parts of tiles, one less and one more" *
          on_gpu()) {
  int64_t turn = 0;
  for (const int64_t tokens : {1,  5,  8,  15, 16, 17, 31, 32,  33,  47,  48,  49,  63, 64,
                               65, 79, 80, 81, 95, 96, 97, 111, 112, 113, 127, 128, 129}) {
    Case c = {.heads = 1, .queries = tokens, .keys = tokens, .size = 16, .causal = turn % 2 == 0};
    c.mask = static_cast<MaskKind>(turn % 3 == 0 ? turn / 3 % 4 : 0);
    c.dropout = turn % 5 == 4 ? 0.25 : 0;
    check_case(c);
    check_case(
        {.heads = 1, .queries = tokens, .keys = 145 - tokens, .size = 16, .causal = turn % 4 < 2});
    ++turn;
  }
}

TEST_CASE("GPU: attention by tiles has blocks of as many warps as tokens fit in" * on_gpu()) {
  for (const auto& [queries, keys] : {std::pair{112, 197}, {208, 112}, {193, 65}, {224, 225}})
    for (const bool causal : {false, true})
      check_case({.heads = 1, .queries = queries, .keys = keys, .causal = causal});
}

TEST_CASE("GPU: attention by tiles takes a scale that turns the order of scores" * on_gpu()) {
  for (const double scale : {-0.25, 0.0})
    check_case({.queries = 70, .keys = 70, .causal = true, .given_scale = scale});
}

TEST_CASE("GPU: attention by tiles of drawn shapes, layouts, masks and shares to drop" * on_gpu()) {
  Draw draw(11);
  for (int i = 0; i < 24; ++i) {
    Case c = drawn_case(draw);
    c.dtype = static_cast<DType>(draw(DType::f16, DType::bf16));
    c.size = draw(8, 33, 64, 64, 100, 128);
    check_case(c);
  }
}

TEST_CASE("GPU: attention by tiles without queries or keys is empty or zero" * on_gpu()) {
  for (const DType dtype : {DType::f16, DType::bf16}) check_empty(dtype);
}

TEST_CASE("GPU: attention by tiles drops everything where nothing is kept" * on_gpu()) {
  check_all_dropped(DType::bf16);
}

TEST_CASE("GPU: attention by tiles passes nan and infinity on, so that a loss scaler sees them" *
          on_gpu()) {
  for (const DType dtype : {DType::f16, DType::bf16}) check_bad_numbers(dtype);
}

TEST_CASE("GPU: attention by products has the tokens of an image model" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f64})
    check_case({.dtype = dtype, .heads = 1, .queries = 197, .keys = 197, .dropout = 0.1});
}

TEST_CASE("GPU: attention by products has heads of any size and rows of any length" * on_gpu()) {
  const int64_t sizes[][3] = {{1, 1, 1},   {1, 65, 64},  {33, 1, 16},  {65, 31, 300}, {17, 32, 129},
                              {5, 300, 8}, {3, 700, 12}, {2, 1100, 5}, {2, 2100, 3},  {2, 8300, 3}};
  for (const DType dtype : floating_dtypes)
    for (const auto& [queries, keys, size] : sizes)
      if (size > 128 || !is_16_bit(dtype))
        check_case({.dtype = dtype, .queries = queries, .keys = keys, .size = size});
}

TEST_CASE("GPU: attention by products of drawn shapes, dtypes, layouts, masks and shares to drop" *
          on_gpu()) {
  Draw draw(12);
  for (int i = 0; i < 40; ++i) {
    Case c = drawn_case(draw);
    c.batch = draw(1, 2, 3);
    c.dtype = static_cast<DType>(draw(DType::f32, DType::f32, DType::f64));
    c.size = draw(1, 8, 8, 33, 64, 130);
    c.mask_dtype = floating_dtypes[draw(0, 1, 2, 3)];
    c.mixed = draw(0, 0, 1) == 1;
    check_case(c);
  }
}

// Parts with several batch items, some heads of one item, and some queries of a head.
TEST_CASE("GPU: attention by products in parts is that of the whole" * on_gpu()) {
  const Case cases[] = {{.batch = 9, .heads = 3, .queries = 5, .keys = 9, .size = 8},
                        {.batch = 2, .heads = 7, .queries = 30, .keys = 40, .size = 8},
                        {.batch = 1, .heads = 2, .queries = 100, .keys = 260, .size = 4},
                        {.batch = 1, .heads = 2, .queries = 260, .keys = 100, .size = 4}};
  for (Case c : cases)
    for (const Layout layout : {Layout::dense, Layout::packed})
      for (const bool causal : {false, true}) {
        c.dtype = DType::f32;
        c.layout = layout;
        c.causal = causal;
        c.mask = MaskKind::per_head;
        c.dropout = 0.25;
        check_case(c);
      }
}

TEST_CASE("GPU: attention by products without queries or keys is empty or zero" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f64}) check_empty(dtype);
}

TEST_CASE("GPU: attention by products drops everything where nothing is kept" * on_gpu()) {
  check_all_dropped(DType::f32);
}

TEST_CASE("GPU: attention by products passes nan and infinity on" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f64}) check_bad_numbers(dtype);
}
