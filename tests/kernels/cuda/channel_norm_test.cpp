// Batch norm and group norm on a GPU.
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

using Views = std::vector<View>;

struct Case {
  Index shape;
  int64_t groups;
};
const Case cases[] = {{{2, 4, 3, 5}, 2}, {{3, 6}, 3},       {{70, 8, 1}, 2},  {{2, 3, 31, 41}, 1},
                      {{1, 2, 5000}, 2}, {{2, 6, 7, 7}, 6}, {{4, 32, 8}, 4},  {{0, 4, 9}, 2},
                      {{2, 4, 0}, 2},    {{1, 1, 1}, 1},    {{2, 1, 9000}, 1}};

struct Drawn {
  DType dtype, other, parameters;
  bool absent, training;
  uint32_t seed;
};

template <class Body>
void for_each_case(Body&& body) {
  std::mt19937 generator(23);
  const auto draw = [&](uint32_t choices) { return static_cast<uint32_t>(generator() % choices); };
  for (const Case& one : cases)
    for (const DType dtype : floating_dtypes)
      for (const bool training : {true, false}) {
        Drawn drawn = {
            dtype,    floating_dtypes[draw(4)], draw(2) ? dtype : wide(dtype), draw(3) == 0,
            training, draw(1'000'000)};
        if (dtype != DType::f64 && drawn.other == DType::f64) drawn.other = dtype;
        INFO(std::string(name_of(dtype)) << ", others " << std::string(name_of(drawn.other))
                                         << ", case " << &one - cases << ", training " << training);
        body(one, drawn);
      }
}

// Returns positive values, like variances and reciprocal deviations.
Plain positive(DType dtype, const Index& shape, uint32_t seed) {
  Plain tensor = random(dtype, shape, seed);
  for_each_index(shape, [&](const Index& at) { tensor.set(at, std::abs(tensor.at(at)) + 0.5); });
  return tensor;
}

}  // namespace

TEST_CASE("GPU: batch norm and its running statistics agree with the CPU" * on_gpu()) {
  for_each_case([](const Case& one, const Drawn& drawn) {
    const DType of_statistics = wide(drawn.dtype);
    const Index channels = {one.shape[1]};
    const auto optional = [&](const View& view) { return drawn.absent ? View{} : view; };
    compare_all({unwritten(drawn.other, one.shape), unwritten(of_statistics, channels),
                 unwritten(of_statistics, channels), random(of_statistics, channels, 1),
                 positive(of_statistics, channels, 2)},
                {random(drawn.dtype, one.shape, drawn.seed), random(drawn.parameters, channels, 3),
                 random(drawn.parameters, channels, 4)},
                [&](const Table& table, const Views& out, const Views& in) {
                  table.batch_norm(out[0], out[1], out[2], in[0], optional(in[1]), optional(in[2]),
                                   optional(out[3]), optional(out[4]), drawn.training, 0.3, 1e-3);
                });
  });
}

TEST_CASE("GPU: the gradients of batch norm agree with the CPU" * on_gpu()) {
  for_each_case([](const Case& one, const Drawn& drawn) {
    const DType of_statistics = wide(drawn.dtype);
    const Index channels = {one.shape[1]};
    const auto optional = [&](const View& view) { return drawn.absent ? View{} : view; };
    compare_all(
        {unwritten(drawn.other, one.shape), unwritten(of_statistics, channels),
         unwritten(of_statistics, channels)},
        {random(drawn.other, one.shape, drawn.seed), random(drawn.dtype, one.shape, 5),
         random(of_statistics, channels, 1), positive(of_statistics, channels, 2),
         random(drawn.parameters, channels, 3)},
        [&](const Table& table, const Views& out, const Views& in) {
          table.batch_norm_backward(out[0], optional(out[1]), out[2], in[0], in[1], in[2], in[3],
                                    optional(in[4]), drawn.training);
        },
        {}, 10);
  });
}

TEST_CASE("GPU: group norm agrees with the CPU" * on_gpu()) {
  for_each_case([](const Case& one, const Drawn& drawn) {
    const Plain of_groups = unwritten(wide(drawn.dtype), {one.shape[0] * one.groups});
    const Index channels = {one.shape[1]};
    const auto optional = [&](const View& view) { return drawn.absent ? View{} : view; };
    compare_all({unwritten(drawn.other, one.shape), of_groups, of_groups},
                {random(drawn.dtype, one.shape, drawn.seed), random(drawn.parameters, channels, 3),
                 random(drawn.parameters, channels, 4)},
                [&](const Table& table, const Views& out, const Views& in) {
                  table.group_norm(out[0], out[1], out[2], in[0], optional(in[1]), in[2],
                                   one.groups, 1e-3);
                });
  });
}

TEST_CASE("GPU: the gradients of group norm agree with the CPU" * on_gpu()) {
  for_each_case([](const Case& one, const Drawn& drawn) {
    const DType of_statistics = wide(drawn.dtype);
    const Index channels = {one.shape[1]}, sets = {one.shape[0] * one.groups};
    const auto optional = [&](const View& view) { return drawn.absent ? View{} : view; };
    compare_all(
        {unwritten(drawn.other, one.shape), unwritten(of_statistics, channels),
         unwritten(of_statistics, channels)},
        {random(drawn.other, one.shape, drawn.seed), random(drawn.dtype, one.shape, 5),
         random(of_statistics, sets, 1), positive(of_statistics, sets, 2),
         random(drawn.parameters, channels, 3)},
        [&](const Table& table, const Views& out, const Views& in) {
          table.group_norm_backward(out[0], out[1], optional(out[2]), in[0], in[1], in[2], in[3],
                                    optional(in[4]), one.groups);
        },
        {}, 10);
  });
}
