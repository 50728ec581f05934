// Attention and its gradients against a plain loop in double precision, on every CPU variant.
#include "platform/threads.h"
#include "tests/draws.h"
#include "tests/kernels/everywhere.h"

#include <algorithm>
#include <limits>
#include <numbers>

using namespace booster;
using namespace booster::kernels::test;
using kernels::View;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// (batch, heads, tokens, width) laid out as (batch, tokens, heads, width + gap), like the packed
// output of a Linear; every byte starts as a canary.
Plain packed(DType dtype, int64_t batch, int64_t heads, int64_t tokens, int64_t width,
             int64_t gap = 3) {
  const int64_t row = width + gap;
  Plain tensor(dtype, {batch, heads, tokens, width}, {tokens * heads * row, row, heads * row, 1});
  tensor.fill_bytes(0x7F);
  return tensor;
}

void assign(const Plain& tensor, const Numbers& values) {
  size_t next = 0;
  for_each_index(tensor.shape, [&](const Index& index) { tensor.set(index, values[next++]); });
}

struct Case {
  DType dtype = DType::f32;
  int64_t batch = 2, heads = 2, queries = 5, keys = 7, size = 8;
  bool causal = false;
  double dropout = 0;
  Numbers mask = {};  // (queries, keys), -infinity where hidden
  DType mask_dtype = DType::f32;
  double spread = 1;                // standard deviation of q and k
  std::vector<int64_t> first = {};  // (batch, queries): the first key that each query sees

  int64_t rows() const { return batch * heads * queries; }
  bool sees(int64_t row, int64_t key) const {
    const int64_t query = row % queries, text = row / (heads * queries);
    if (causal && key > query) return false;
    return first.empty() || key >= first[static_cast<size_t>(text * queries + query)];
  }
  kernels::VisibleKeys visible() const {
    if (first.empty()) return causal;
    return {causal, View{.data = const_cast<int64_t*>(first.data()),
                         .dtype = DType::i64,
                         .ndim = 2,
                         .shape = {batch, queries},
                         .strides = {queries, 1}}};
  }
  double scale() const { return 1 / std::sqrt(double(std::max<int64_t>(size, 1))); }
};

Numbers normal_numbers(int64_t n, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  Numbers x(n);
  for (double& value : x) value = spread * normal(engine);
  return x;
}

struct Result {
  Numbers out, log_sum, dq, dk, dv;
  bool operator==(const Result&) const = default;
};

// The reference. All arguments (batch, heads, tokens, size); keep (batch, heads, queries, keys).
Result plain_attention(const Case& c, const Numbers& q, const Numbers& k, const Numbers& v,
                       const Numbers& g, const Numbers& keep) {
  Result r{Numbers(q.size()), Numbers(2 * c.rows()), Numbers(q.size()), Numbers(k.size()),
           Numbers(k.size())};
  const int64_t d = c.size;
  for (int64_t row = 0; row < c.rows(); ++row) {
    const int64_t query = row % c.queries, first = row / c.queries * c.keys;
    Numbers p(c.keys), dp(c.keys);
    double best = -infinity, total = 0, delta = 0;
    for (int64_t j = 0; j < c.keys; ++j) {
      double s = 0;
      for (int64_t i = 0; i < d; ++i) s += q[row * d + i] * k[(first + j) * d + i];
      p[j] = s * c.scale() + (c.mask.empty() ? 0 : c.mask[query * c.keys + j]);
      if (!c.sees(row, j)) p[j] = -infinity;
      best = std::max(best, p[j]);
    }
    for (double& x : p) total += x = best == -infinity ? 0 : std::exp(x - best);
    r.log_sum[2 * row] = best / std::numbers::ln2;
    r.log_sum[2 * row + 1] = std::log2(total);
    for (int64_t j = 0; j < c.keys; ++j) {
      p[j] = total == 0 ? 0 : p[j] / total;
      const double kept = keep.empty() ? 1 : keep[row * c.keys + j];
      for (int64_t i = 0; i < d; ++i) {
        r.out[row * d + i] += p[j] * kept * v[(first + j) * d + i];
        r.dv[(first + j) * d + i] += p[j] * kept * g[row * d + i];
        dp[j] += kept * g[row * d + i] * v[(first + j) * d + i];
      }
      delta += p[j] * dp[j];
    }
    for (int64_t j = 0; j < c.keys; ++j)
      for (int64_t i = 0; i < d; ++i) {
        const double ds = p[j] * (dp[j] - delta) * c.scale();
        r.dq[row * d + i] += ds * k[(first + j) * d + i];
        r.dk[(first + j) * d + i] += ds * q[row * d + i];
      }
  }
  return r;
}

// Returns the largest difference, relative to the largest wanted value (at least `largest`).
double difference(const Numbers& got, const Numbers& want, double largest = 1e-30) {
  double worst = 0;
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == got[i]) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return infinity;
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(got[i] - want[i]));
  }
  return worst / largest;
}

constexpr kernels::RandomPosition position{7, 3};

// Returns the mask that the dropout kernel draws for a tensor of all probabilities.
Numbers dropout_mask(const Case& c) {
  if (c.dropout == 0) return {};
  std::vector<float> ones(c.rows() * c.keys, 1.0f), kept(ones.size());
  const int64_t n = int64_t(ones.size());
  kernels::on({}).dropout({kept.data(), DType::f32, {}, 1, {n}, {1}},
                          {ones.data(), DType::f32, {}, 1, {n}, {1}}, c.dropout, position);
  Numbers keep(kept.begin(), kept.end());
  for (double& x : keep) x = x == 0 ? 0 : 1 / (1 - c.dropout);
  return keep;
}

struct Inputs {
  explicit Inputs(const Case& c)
      : q(packed(c.dtype, c.batch, c.heads, c.queries, c.size)),
        k(packed(c.dtype, c.batch, c.heads, c.keys, c.size)),
        v(k),
        g(packed(c.dtype, c.batch, c.heads, c.queries, c.size, 0)),
        mask(packed(c.mask_dtype, 1, 1, c.queries, c.keys)) {
    assign(q, normal_numbers(c.rows() * c.size, c.spread, 1));
    assign(k, normal_numbers(c.batch * c.heads * c.keys * c.size, c.spread, 2));
    assign(v, normal_numbers(c.batch * c.heads * c.keys * c.size, 1, 3));
    assign(g, normal_numbers(c.rows() * c.size, 1, 4));
    if (c.mask.empty()) return;
    Numbers values = c.mask;
    if (c.mask_dtype == DType::boolean)
      for (double& x : values) x = x == 0;
    assign(mask, values);
  }
  Plain q, k, v, g, mask;
};

Result run_kernels(const Case& c, const Inputs& in) {
  const Plain out = packed(c.dtype, c.batch, c.heads, c.queries, c.size), dq(out);
  const Plain dk = packed(c.dtype, c.batch, c.heads, c.keys, c.size), dv(dk);
  const Plain log_sum = zeros(wide(c.dtype), {c.batch, c.heads, c.queries, 2});
  const View mask = c.mask.empty() ? View{} : in.mask.view();
  const auto& table = kernels::on({});
  table.attention(out.view(), log_sum.view(), in.q.view(), in.k.view(), in.v.view(), mask,
                  c.scale(), c.visible(), c.dropout, position);
  table.attention_backward(dq.view(), dk.view(), dv.view(), in.g.view(), in.q.view(), in.k.view(),
                           in.v.view(), out.view(), log_sum.view(), mask, c.scale(), c.visible(),
                           c.dropout, position);
  return {numbers(out), numbers(log_sum), numbers(dq), numbers(dk), numbers(dv)};
}

double largest_error(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 2e-6;
    case DType::f16: return 2e-3;
    default: return 0x1p-6;  // four roundings
  }
}

void check_case(const Case& c) {
  Inputs in(c);
  const Result want = plain_attention(c, numbers(in.q), numbers(in.k), numbers(in.v), numbers(in.g),
                                      dropout_mask(c));
  const double most = largest_error(c.dtype);
  const double terms = c.keys == 1 ? 1 : 1e-30;  // terms of dq and dk, which cancel to 0
  const int threads = kernels::thread_count();
  for (const std::string& variant : kernels::cpu_variants()) {
    kernels::force_cpu_variant(variant);
    const std::string dtype = name_of(c.dtype);
    CAPTURE(variant);
    CAPTURE(dtype);
    CAPTURE(c.queries);
    CAPTURE(c.keys);
    CAPTURE(c.size);
    kernels::set_thread_count(1);
    const Result got = run_kernels(c, in);
    kernels::set_thread_count(2);
    CHECK(run_kernels(c, in) == got);  // bitwise
    CHECK(difference(got.out, want.out) < most);
    CHECK(difference(got.log_sum, want.log_sum) < std::min(most, 1e-5));
    CHECK(difference(got.dq, want.dq, terms) < most);
    CHECK(difference(got.dk, want.dk, terms) < most);
    CHECK(difference(got.dv, want.dv) < most);
  }
  kernels::set_thread_count(threads);
  kernels::force_cpu_variant(kernels::cpu_variants().back());
}

Numbers hidden_where(int64_t queries, int64_t keys, bool (*hidden)(int64_t, int64_t)) {
  Numbers mask(queries * keys);
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) mask[i * keys + j] = hidden(i, j) ? -infinity : 0;
  return mask;
}

}  // namespace

TEST_CASE("attention equals the plain loop for every dtype and the tokens of an image model") {
  for (DType dtype : floating_dtypes)
    check_case({.dtype = dtype, .batch = 1, .heads = 3, .queries = 197, .keys = 197, .size = 64});
}

TEST_CASE("attention takes odd, single and unequal sizes") {
  const int64_t sizes[][3] = {{1, 1, 1},    {1, 50, 64}, {33, 1, 16}, {7, 49, 20}, {40, 17, 33},
                              {65, 48, 80}, {3, 97, 72}, {9, 5, 128}, {2, 3, 7}};
  for (DType dtype : floating_dtypes)
    for (const auto& [queries, keys, size] : sizes)
      check_case({.dtype = dtype, .queries = queries, .keys = keys, .size = size});
}

TEST_CASE("attention joins many blocks of keys and queries") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (bool causal : {false, true})
      check_case({.dtype = dtype,
                  .batch = 1,
                  .heads = 1,
                  .queries = 450,
                  .keys = 1000,
                  .size = 16,
                  .causal = causal});
}

TEST_CASE("a causal query sees no later key") {
  for (DType dtype : floating_dtypes)
    check_case({.dtype = dtype, .queries = 40, .keys = 40, .size = 16, .causal = true});
}

// A window, and documents of different lengths in each text.
TEST_CASE("a causal query sees no key before its first one") {
  for (const DType dtype : floating_dtypes)
    for (const int64_t tokens : {5, 70, 900}) {
      std::vector<int64_t> window, documents;
      for (int64_t text = 0; text < 2; ++text)
        for (int64_t i = 0; i < tokens; ++i) {
          window.push_back(std::max<int64_t>(i - 39, 0));
          const int64_t length = text == 0 ? 7 : 450;
          documents.push_back(i / length * length);
        }
      for (const auto& first : {window, documents})
        check_case({.dtype = dtype,
                    .queries = tokens,
                    .keys = tokens,
                    .causal = true,
                    .dropout = tokens == 70 ? 0.25 : 0,
                    .first = first});
    }
}

// Draws sizes, causality, first keys, dropout and masks. Sizes meet the edges of tiles and blocks.
Case drawn_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto up_to = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  Case c{.dtype = floating_dtypes[random() % 4], .batch = 1 + up_to(2), .heads = 1 + up_to(3)};
  if (random() % 2) c.dtype = DType::bf16;
  const int64_t head_sizes[] = {64, 128, 1 + up_to(160)};
  c.size = head_sizes[random() % 3];
  c.causal = random() % 2;
  c.queries = 1 + up_to(random() % 4 ? 80 : 420);
  c.keys = c.causal ? c.queries : 1 + up_to(random() % 4 ? 80 : 420);
  if (random() % 4 == 0) c.dropout = 0.3;
  if (c.causal && random() % 2)
    for (int64_t i = 0; i < c.batch * c.queries; ++i)
      c.first.push_back(up_to(i % c.queries + 1));
  if (random() % 4 == 0) c.mask = normal_numbers(c.queries * c.keys, 1, seed);
  for (double& number : c.mask) number = static_cast<float>(number);  // masks are f32
  return c;
}

TEST_CASE("attention of drawn sizes and visible keys equals the plain loop on every variant") {
  for (const unsigned seed : testing::draws(330)) {
    CAPTURE(seed);
    check_case(drawn_case(seed));
  }
}

TEST_CASE("attention by tile registers equals that by vectors, also between products of oneDNN") {
  const auto variants = kernels::cpu_variants();
  if (variants.back() != "amx") {
    MESSAGE("skipped: no AMX here, or the kernel grants no tile registers");
    return;
  }
  const Case c{.dtype = DType::bf16, .queries = 150, .keys = 150, .size = 64, .causal = true};
  const Inputs in(c);
  const Plain a = random(DType::bf16, {256, 256}, {256, 1}, 1), product(a), again(a);
  kernels::force_cpu_variant("avx512_bf16");
  const Result want = run_kernels(c, in);
  kernels::force_cpu_variant("amx");
  kernels::on({}).matmul(product.view(), a.view(), a.view(), 0);
  const Result got = run_kernels(c, in);
  kernels::on({}).matmul(again.view(), a.view(), a.view(), 0);
  CHECK(*again.bytes == *product.bytes);
  CHECK(run_kernels(c, in) == got);
  CHECK(difference(got.out, want.out) < 8e-3);
  CHECK(difference(got.dq, want.dq) < 8e-3);
  CHECK(difference(got.dk, want.dk) < 8e-3);
  CHECK(difference(got.dv, want.dv) < 8e-3);
}

TEST_CASE("a mask hides keys, added or boolean") {
  const Numbers mask =
      hidden_where(19, 35, [](int64_t i, int64_t j) { return (i * 7 + j) % 3 == 0; });
  for (DType mask_dtype : {DType::f32, DType::bf16, DType::boolean})
    for (DType dtype : floating_dtypes)
      check_case(
          {.dtype = dtype, .queries = 19, .keys = 35, .mask = mask, .mask_dtype = mask_dtype});
}

TEST_CASE("a mask that hides all keys of a query by a finite number hides them alike") {
  for (DType dtype : floating_dtypes)
    for (const double low : {-1e9, -0x1p127})
      check_case(
          {.dtype = dtype, .queries = 19, .keys = 35, .mask = Numbers(19 * 35, low), .spread = 0});
}

TEST_CASE("a finite mask is added to the scores after scaling") {
  check_case({.queries = 19, .keys = 35, .mask = normal_numbers(19 * 35, 3, 9)});
}

TEST_CASE("a query that may attend to nothing gives zeros and no gradient") {
  const Numbers mask = hidden_where(9, 20, [](int64_t i, int64_t) { return i % 2 == 0; });
  for (DType dtype : floating_dtypes)
    check_case({.dtype = dtype, .queries = 9, .keys = 20, .mask = mask});
}

TEST_CASE("large scores neither overflow nor lose the largest") {
  check_case({.dtype = DType::f64, .queries = 30, .keys = 60, .size = 64, .spread = 8});
  Case c{.queries = 30, .keys = 60, .size = 64, .spread = 30};
  Inputs in(c);
  const Result got = run_kernels(c, in);
  const Result want =
      plain_attention(c, numbers(in.q), numbers(in.k), numbers(in.v), numbers(in.g), {});
  CHECK(difference(got.out, want.out) < 1e-3);  // scores near 5000 have an error near 1e-4
}

TEST_CASE("attention drops the probabilities that the dropout kernel drops") {
  for (DType dtype : floating_dtypes)
    for (int64_t keys : {7, 450})
      check_case({.dtype = dtype, .queries = 21, .keys = keys, .size = 16, .dropout = 0.4});
}

TEST_CASE("dropout of everything gives zeros") {
  Case c{.dropout = 1};
  Inputs in(c);
  const Result got = run_kernels(c, in);
  CHECK(difference(got.out, Numbers(got.out.size())) == 0);
  CHECK(difference(got.dq, Numbers(got.dq.size())) == 0);
}

TEST_CASE("attention without queries, keys or features is empty or zero") {
  for (DType dtype : floating_dtypes) {
    check_case({.dtype = dtype, .queries = 0});
    check_case({.dtype = dtype, .keys = 0});
    check_case({.dtype = dtype, .size = 0});
    check_case({.dtype = dtype, .batch = 0});
  }
}

TEST_CASE("attention passes nan and infinity on, so that a loss scaler sees them") {
  for (DType dtype : floating_dtypes)
    for (double bad : {std::nan(""), infinity}) {
      Case c{.dtype = dtype, .batch = 1, .heads = 1, .queries = 20, .keys = 20, .size = 16};
      Inputs in(c);
      in.q.set({0, 0, 3, 2}, bad);
      const Result got = run_kernels(c, in);
      CHECK(std::isnan(got.out[3 * 16]));
      CHECK(std::isnan(got.dk[0]));
      CHECK(!std::isnan(got.out[2 * 16]));
      Inputs clean(c);
      clean.g.set({0, 0, 3, 2}, bad);
      CHECK(!std::isfinite(run_kernels(c, clean).dv[2]));
    }
}

TEST_CASE("attention writes its rows and nothing between them") {
  Case c{.queries = 13, .keys = 13, .size = 9};
  Inputs in(c);
  const Plain out = packed(c.dtype, c.batch, c.heads, c.queries, c.size), expected(out);
  const Plain log_sum = zeros(DType::f32, {c.batch, c.heads, c.queries, 2});
  kernels::on({}).attention(out.view(), log_sum.view(), in.q.view(), in.k.view(), in.v.view(), {},
                            1, false, 0, {});
  assign(expected, numbers(out));
  CHECK(*expected.bytes == *out.bytes);
}
