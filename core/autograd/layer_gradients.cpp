#include "core/autograd/layer_gradients.h"

#include "core/autograd/node.h"
#include "kernels/catalogue.h"

#include <memory>
#include <optional>
#include <utility>

namespace booster {
namespace {

class LayerGradients {
 public:
  // Computes both gradients. dbias is not wanted if it has no dtype.
  LayerGradients(const Tensor& g, const Tensor& x, DType dweight, std::optional<DType> dbias)
      : g_(g), x_(x), dweight_dtype_(dweight), dbias_dtype_(dbias) {}

  // The interface of GradientSchedule::compute_or_add.
  Tensor weight(const Tensor& sum) {
    const bool adds = sum.defined() && g_.defined() && dweight_dtype_ == sum.dtype() &&
                      !sum.shares_storage(g_) && !sum.shares_storage(x_);
    if (adds)
      compute(sum, 1);
    else if (g_.defined())
      compute_apart();
    return std::exchange(dweight_, {});
  }
  Tensor bias() {
    if (g_.defined()) compute_apart();
    return std::exchange(dbias_, {});
  }

 private:
  void compute_apart() {
    dweight_ = empty({g_.size(1), x_.size(1)}, {dweight_dtype_, g_.device()});
    compute(dweight_, 0);
  }
  // Releases its inputs afterwards.
  void compute(const Tensor& dweight, double beta) {
    if (dbias_dtype_) dbias_ = empty({g_.size(1)}, {*dbias_dtype_, g_.device()});
    kernels::on(g_.device())
        .linear_backward_weight(dweight.view(), dbias_.view(), g_.view(), x_.view(), beta);
    g_ = x_ = {};
  }

  Tensor g_, x_;
  DType dweight_dtype_;
  std::optional<DType> dbias_dtype_;
  Tensor dweight_, dbias_;
};

Tensor sums_of_columns(const Tensor& g, DType dtype) {
  const Tensor sums = empty({g.size(1)}, {dtype, g.device()});
  kernels::on(g.device()).column_sums(sums.view(), g.view());
  return sums;
}

}  // namespace

void compute_layer_gradients(Gradients& d, const Tensor& g, const Tensor& x, DType dweight,
                             DType dbias) {
  if (!d.wanted(2)) return compute_weight_gradient(d, g, x, dweight);
  if (!d.wanted(1))
    return GradientSchedule(d).compute(2, [=] { return sums_of_columns(g, dbias); });
  const auto both = std::make_shared<LayerGradients>(g, x, dweight, dbias);
  GradientSchedule(d).compute_or_add(1, [both](const Tensor& sum) { return both->weight(sum); });
  GradientSchedule(d).compute(2, [both] { return both->bias(); });
}

void compute_weight_gradient(Gradients& d, const Tensor& g, const Tensor& x, DType dweight) {
  if (!d.wanted(1)) return;
  GradientSchedule(d).compute_or_add(1, [=](const Tensor& sum) {
    return LayerGradients(g, x, dweight, std::nullopt).weight(sum);
  });
}

}  // namespace booster
