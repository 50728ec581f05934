// Rotation of pairs of features by their positions' angles, as kernels/rows/rotary.cpp defines it.
#include "kernels/cuda/launch.cuh"
#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Rotation {
  View y, x, cosines, sines;
  bool back;
};

// One thread for each pair. Neighbouring threads have neighbouring pairs of a head, then the heads
// of a token, as they lie in memory.
template <class C>
__device__ void turn_pair(const Rotation& of, int64_t i) {
  const int64_t heads = of.x.shape[1], tokens = of.x.shape[2], half = of.x.shape[3] / 2;
  const int64_t pair = i % half, head = i / half % heads, token = i / (half * heads) % tokens;
  const int64_t batch = i / (half * heads * tokens);
  const auto angle = [&](const View& table) {
    const int64_t element = batch * table.strides[0] + token * table.strides[1] + pair;
    return C(static_cast<const float*>(table.data)[element]);
  };
  const auto place = [&](const View& view) {
    return batch * view.strides[0] + head * view.strides[1] + token * view.strides[2] + pair;
  };
  const C cosine = angle(of.cosines), sine = of.back ? -angle(of.sines) : angle(of.sines);
  const C a = load_any<C>(of.x.data, of.x.dtype, place(of.x));
  const C b = load_any<C>(of.x.data, of.x.dtype, place(of.x) + half);
  store_any<C>(of.y.data, of.y.dtype, place(of.y), a * cosine - b * sine);
  store_any<C>(of.y.data, of.y.dtype, place(of.y) + half, b * cosine + a * sine);
}

template <class C>
void turn_pairs(Rotation of) {
  for_each_item(of.x.size() / 2, [=] ON_DEVICE(int64_t i) { turn_pair<C>(of, i); });
}

}  // namespace

void rotary(View y, View x, View cosines, View sines, bool back) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    turn_pairs<C>({y, x, cosines, sines, back});
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
