// Cross entropy on a GPU.
#include "tests/kernels/cuda/row_cases.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

constexpr int64_t ignored = -100;

// Logits of some of all classes, depending on the case's seed.
struct Problem {
  explicit Problem(const RowCase& a_case) : one(a_case) {
    if (one.seed % 2) {
      first_class = one.seed % 7;
      classes = first_class + one.columns + one.seed % 5;
    } else {
      classes = one.columns;
    }
    if (classes == 0) classes = 1;
    smoothing = one.seed % 3 ? 0.1 : 0;
    weight = random(one.parameters, {classes}, one.seed + 9);
    target = zeros(DType::i64, {one.rows});
    std::mt19937 generator(one.seed);
    for (int64_t row = 0; row < one.rows; ++row)
      target.set({row}, generator() % 4 ? double(generator() % classes) : ignored);
  }

  void compare_forward(const Plain& logits) const {
    compare_all(
        {one.per_row(), unwritten(wide(one.dtype), {one.rows, 2}), one.per_row(),
         unwritten(DType::i64, {1})},
        {logits, target, weight},
        [&](const Table& table, const Views& out, const Views& in) {
          table.cross_entropy(out[0], out[1], one.absent ? View{} : out[2], out[3],
                              one.matrix(in[0]), in[1], one.absent ? View{} : in[2], smoothing,
                              ignored, first_class, classes);
        },
        {}, 1);
  }
  void compare_backward(const Plain& logits) const {
    // One factor for all rows, or one per row.
    const Plain scale = random(wide(one.dtype), {one.rows}, {one.seed % 2}, one.seed + 1);
    const Plain log_sum = random(wide(one.dtype), {one.rows, 2}, one.seed + 2);
    compare(one.result(one.other), {scale, logits, log_sum, target, weight},
            [&](const Table& table, const View& out, const Views& in) {
              table.cross_entropy_backward(one.matrix(out), in[0], one.matrix(in[1]), in[2], in[3],
                                           one.absent ? View{} : in[4], smoothing, ignored,
                                           first_class, classes);
            });
  }

  RowCase one;
  int64_t first_class = 0, classes;
  double smoothing;
  Plain weight, target;
};

}  // namespace

TEST_CASE("GPU: cross entropy and its gradient agree with the CPU" * on_gpu()) {
  const auto compare_case = [](const RowCase& one) {
    const Problem problem(one);
    problem.compare_forward(one.drawn(one.dtype, 1));
    problem.compare_backward(one.drawn(one.dtype, 1));
  };
  for_each_row_case(row_sizes, compare_case);
  for_each_row_case(long_rows, compare_case);
}

TEST_CASE("GPU: a target that is no class leaves everything as it is and is named" * on_gpu()) {
  for_each_row_case({10}, [](RowCase one) {
    one.rows = 40'000;
    Problem problem(one);
    for (const int64_t bad : {39'999, 20'000, 16'384, 16'383, 1}) {
      problem.target.set({bad}, one.seed % 2 ? -1.0 : double(problem.classes));
      compare(unwritten(DType::i64, {1}), {one.drawn(one.dtype, 1), problem.target},
              [&](const Table& table, const View& out, const Views& in) {
                // Nothing may be computed or written here.
                const View no = {};
                table.cross_entropy(no, no, no, out, one.matrix(in[0]), in[1], {}, 0, ignored,
                                    problem.first_class, problem.classes);
              });
    }
    one.rows = 9;
    Problem few(one);
    few.target.set({5}, double(few.classes));
    few.compare_forward(one.drawn(one.dtype, 1));
  });
}

TEST_CASE("GPU: cross entropy of nan and infinite logits is as on the CPU" * on_gpu()) {
  for_each_row_case({1, 12, 1030, 9000}, [](RowCase one) {
    one.rows = 8;
    const Problem problem(one);
    const Plain logits = one.drawn(one.dtype, 1);
    const double special[] = {-INFINITY, INFINITY, NAN};
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t i = 0; i < one.columns; ++i)
        if (row >= 3 || i == one.columns / 2)
          logits.set({one.offset + row * one.columns + i}, special[row % 3]);
    problem.compare_forward(logits);
    problem.compare_backward(logits);
  });
}
