// Sorting and prefix sums on a GPU.
#include "tests/capture_part.h"
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

const DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                            DType::i32, DType::i64, DType::u8};

// Returns values with ties and, if the dtype has them, nans, infinities and zeros of both signs.
Plain drawn(DType dtype, const Index& shape) {
  const Plain x = test::zeros(dtype, shape);
  std::mt19937 generator(3);
  const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  for_each_index(shape, [&](const Index& i) {
    const auto pick = generator() % 30;
    const double number =
        static_cast<double>(generator() % 2000) / 8 - (dtype == DType::u8 ? 0 : 125);
    x.set(i, is_floating(dtype) && pick < 5 ? special[pick] : number);
  });
  return x;
}

}  // namespace

TEST_CASE("GPU: rows are sorted as on the CPU" * on_gpu()) {
  const Index shapes[] = {{1, 1}, {3, 17}, {1, 5000}, {70, 64}, {900, 3}, {0, 4}};
  for (const DType dtype : all_dtypes)
    for (const Index& shape : shapes)
      for (const bool descending : {false, true})
        for (const int64_t wanted : {shape[1], (shape[1] + 1) / 2}) {
          CAPTURE(std::string(name_of(dtype)));
          CAPTURE(shape[1]);
          compare(unwritten(DType::i64, {shape[0], wanted}), {drawn(dtype, shape)},
                  [=](const Table& table, const View& out, const auto& in) {
                    table.sort_rows(out, in[0], descending);
                  });
        }
}

TEST_CASE("GPU: running sums are the CPU's" * on_gpu()) {
  struct Case {
    Index shape;
    int dim;
  };
  const Case cases[] = {{{1}, 0},           {{3, 1000}, 1}, {{255, 7}, 0}, {{5000, 3}, 0},
                        {{70, 300, 70}, 1}, {{2, 256}, 1},  {{0, 4}, 1}};
  for (const DType dtype : all_dtypes)
    for (const auto& [shape, dim] : cases)
      for (const bool reverse : {false, true}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE_PART(shape[0]);
        compare(unwritten(is_floating(dtype) ? dtype : DType::i64, shape),
                {random(dtype, shape, 1)},
                [=, along = dim](const Table& table, const View& out, const auto& in) {
                  table.cumsum(out, in[0], along, reverse);
                });
      }
}
