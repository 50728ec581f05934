// Writing by index. Positions are sorted by destination. If several have the same destination, only
// the last is written, as on the CPU.
#include "kernels/catalogue.h"
#include "kernels/cuda/index/sort.cuh"
#include "kernels/cuda/index/targets.cuh"
#include "kernels/cuda/index/words.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

template <class Word>
void write_last(const View& out, const View& src, const int64_t* targets, const int64_t* order,
                int64_t n) {
  const Word* from = src.as<const Word>();
  Word* to = out.as<Word>();
  for_each_item(n, [=] ON_DEVICE(int64_t k) {
    const int64_t position = order[k], target = targets[position];
    if (k + 1 == n || targets[order[k + 1]] != target) to[target] = from[position];
  });
}

}  // namespace

void scatter(View out, View src, View index, int dim) {
  const int64_t n = index.size();
  if (n == 0) return;
  const Workspace<int64_t> targets(n);
  write_targets(out, index, dim, targets.data());
  const SortedPositions order(targets.data(), n, out.size());
  visit_word(size_of(out.dtype), [&]<class Word>(Word*) {
    write_last<Word>(out, src, targets.data(), order.data(), n);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
