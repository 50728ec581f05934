// Prefix sums against a plain loop.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

TEST_CASE("cumsum sums along any dimension, forwards and backwards, in every dtype") {
  struct Case {
    Index shape;
    int dim;
  };
  const Case cases[] = {{{7}, 0},         {{1}, 0},         {{3, 600}, 1}, {{600, 3}, 0},
                        {{2, 5, 300}, 1}, {{4, 257, 1}, 1}, {{0, 4}, 0},   {{4, 0}, 0},
                        {{9, 300}, 1},    {{70, 8}, 1},     {{6, 64}, 1},  {{5, 65}, 1},
                        {{261, 1}, 1},    {{2, 53, 5}, 2}};
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8})
    for (const Case& one : cases)
      for (const bool reverse : {false, true}) {
        const Index& shape = one.shape;
        const int along = one.dim;
        CAPTURE(name_of(dtype));
        CAPTURE(shape[0]);
        CAPTURE(reverse);
        const Plain x = random(dtype, shape, 1);
        const Plain y = zeros(is_floating(dtype) ? dtype : DType::i64, shape);
        const Plain sums = zeros(DType::f64, shape);
        for_each_index(shape, [&](const Index& i) {
          double sum = 0;
          Index j = i;
          const int64_t end = reverse ? shape[along] : i[along] + 1;
          for (j[along] = reverse ? i[along] : 0; j[along] < end; ++j[along]) sum += x.at(j);
          sums.set(i, sum);
        });
        check_everywhere([&](const Table& on) { on.cumsum(y.view(), x.view(), along, reverse); },
                         {{y, numbers(sums), 0.1}});
      }
}
