// In-place calls on the tape: the changed tensor becomes the call's result.
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tracking.h"

namespace booster {
namespace {

// Returns factor * g, and zeros for a factor of 0 even where g is infinite.
Tensor share_of(const Tensor& g, double factor) {
  if (factor == 1) return g;
  return factor == 0 ? zeros_like(g) : mul(g, factor);
}

}  // namespace

// Records target = kept * target + added * source.
void TapeState::record(const Tensor& target, const Tensor& source, const InPlaceCall& call) const {
  if (!must_record({target, source})) return;
  const Shape shape = source.defined() ? source.shape() : Shape();
  const DType dtype = source.defined() ? source.dtype() : target.dtype();
  booster::record(target, call.name, {target, source},
                  twice([call, shape, dtype](const Tensor& g, Gradients& d) {
                    const PolicyScope inside(nullptr);
                    if (d.wanted(0)) d[0] = share_of(g, call.kept);
                    if (d.wanted(1)) d[1] = cast(sum_to(share_of(g, call.added), shape), dtype);
                  }));
}

}  // namespace booster
