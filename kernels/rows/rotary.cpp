// Rotation of pairs of features by their positions' angles (Su et al., "RoFormer", 2021).
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch row_buffer, output_buffer, cosine_buffer, sine_buffer;

// (a, b) becomes (a cos - b sin, b cos + a sin). `out` may be x's memory.
template <class C>
void turn_row(C* out, const C* x, const C* cosines, const C* sines, int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const C a = x[i], b = x[i + half], cosine = cosines[i], sine = sines[i];
    out[i] = a * cosine - b * sine;
    out[i + half] = b * cosine + a * sine;
  }
}

// The angles' row of one token, sines times `sign`.
template <class C>
void load_angles(C* cosines, C* sines, const View& cosine_table, const View& sine_table,
                 int64_t batch, int64_t token, int64_t half, C sign) {
  const auto load_row = [&](C* to, const View& table) {
    const int64_t element = batch * table.strides[0] + token * table.strides[1];
    load_run(to, table.as<const float>() + element, DType::f32, 1, half);
  };
  load_row(cosines, cosine_table);
  load_row(sines, sine_table);
  for (int64_t i = 0; i < half; ++i) sines[i] *= sign;
}

}  // namespace

void rotary(View y, View x, View cosines, View sines, bool back) {
  const int64_t heads = x.shape[1], tokens = x.shape[2], size = x.shape[3], half = size / 2;
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_range(x.shape[0] * tokens, grain_for(heads * size), [&](int64_t begin, int64_t end) {
      C* cosine = cosine_buffer.get<C>(half);
      C* sine = sine_buffer.get<C>(half);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / tokens, token = i % tokens;
        load_angles(cosine, sine, cosines, sines, batch, token, half, back ? C(-1) : C(1));
        for (int64_t head = 0; head < heads; ++head) {
          const auto place = [&](const View& of) {
            return batch * of.strides[0] + head * of.strides[1] + token * of.strides[2];
          };
          C* out = row_target(y, place(y), output_buffer.get<C>(size));
          turn_row(out, read_row(x, place(x), size, row_buffer.get<C>(size)), cosine, sine, half);
          write_row(y, place(y), size, out);
        }
      }
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
