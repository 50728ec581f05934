#include "core/tensor/tensor.h"

#include "core/tensor/random/random.h"
#include "kernels/device/memory.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

using namespace booster;

namespace {
Tensor counting(const Shape& shape) {
  return untracked::reshape(untracked::cast(arange(shape.numel()), DType::f32), shape);
}
using Values = std::vector<float>;
}  // namespace

TEST_CASE("a view shares storage with its tensor") {
  Tensor x = counting({2, 3});
  Tensor row = untracked::select(x, 0, 1);
  row.fill_(7);
  CHECK(x.to_vector<float>() == Values{0, 1, 2, 7, 7, 7});
  CHECK(row.shares_storage(x));
  CHECK(x.version() == row.version());
}

TEST_CASE("transpose, narrow and permute read the right elements") {
  const Tensor x = counting({2, 3, 4});
  CHECK(untracked::transpose(x, 0, 2).to_vector<float>()[1] == 12);
  CHECK(untracked::narrow(x, 1, 1, 1).to_vector<float>() == Values{4, 5, 6, 7, 16, 17, 18, 19});
  CHECK(untracked::permute(x, {2, 0, 1}).to_vector<float>()[1] == 4);
  CHECK(untracked::permute(x, {2, 0, 1}).shape() == Shape{4, 2, 3});
}

TEST_CASE("reshape makes a view of a dense tensor and of every window that allows one") {
  const Tensor x = counting({4, 6});
  CHECK(untracked::reshape(x, {2, 12}).shares_storage(x));
  const Tensor window = untracked::narrow(x, 1, 0, 4);
  CHECK(untracked::reshape(window, {2, 2, 4}).shares_storage(x));
  CHECK(untracked::reshape(window, {4, 2, 2}).to_vector<float>() == window.to_vector<float>());
  const Tensor turned = untracked::transpose(x, 0, 1);
  CHECK_FALSE(untracked::reshape(turned, {24}).shares_storage(x));
  CHECK(untracked::reshape(turned, {24}).to_vector<float>() == turned.to_vector<float>());
  CHECK(untracked::reshape(x, {3, -1}).shape() == Shape{3, 8});
}

TEST_CASE("reshape of windows with sizes of one and broadcast dimensions keeps every element") {
  const Tensor x = untracked::expand(counting({3, 1, 2}), {3, 4, 2});
  for (const Shape& shape :
       {Shape{12, 2}, Shape{24}, Shape{3, 8}, Shape{3, 4, 1, 2}, Shape{1, 3, 4, 2}})
    CHECK(untracked::reshape(x, shape).to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("a scalar has no dimensions and one element") {
  const Tensor x = scalar(2.5);
  CHECK(x.ndim() == 0);
  CHECK(x.numel() == 1);
  CHECK(x.item() == 2.5);
}

TEST_CASE("empty tensors work in every function that takes them") {
  const Tensor x = zeros({0, 3});
  CHECK(x.numel() == 0);
  CHECK(x.clone().shape() == Shape{0, 3});
  CHECK(untracked::sum_to(x, {1, 3}).to_vector<float>() == Values{0, 0, 0});
  CHECK(untracked::cast(x, DType::bf16).numel() == 0);
}

TEST_CASE("casts round to nearest even and keep special values") {
  const Tensor x =
      from_vector<float>({65519.99f, 65520, 2049, 2051, 1e-8f, 6e-8f, 2.9806e-8f, 0x1p-25f}, {8});
  CHECK(untracked::cast(x, DType::f16).to_vector<float>() ==
        Values{65504, INFINITY, 2048, 2052, 0, 0x1p-24f, 0x1p-24f, 0});
  const Tensor y =
      from_vector<float>({1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 257, 259, 3.4e38f, -0.0f}, {6});
  CHECK(untracked::cast(y, DType::bf16).to_vector<float>() ==
        Values{1, 1.015625f, 256, 260, INFINITY, 0});
  const Tensor nan = untracked::cast(from_vector<float>({NAN}, {1}), DType::f16);
  CHECK(std::isnan(nan.item()));
}

TEST_CASE("integers convert exactly, also beyond what f32 holds") {
  const Tensor x = from_vector<int64_t>({(int64_t{1} << 53) + 1, -7, 255}, {3});
  CHECK(untracked::cast(x, DType::i64).to_vector<int64_t>() == x.to_vector<int64_t>());
  CHECK(untracked::cast(from_vector<float>({-1.9f, 300}, {2}), DType::i32).to_vector<int32_t>() ==
        std::vector<int32_t>{-1, 300});
  CHECK(untracked::cast(x, DType::boolean).to_vector<bool>() ==
        std::vector<bool>{true, true, true});
}

TEST_CASE("copy_ broadcasts and converts") {
  Tensor x = zeros({2, 3}, {.dtype = DType::f64});
  x.copy_(from_vector<int32_t>({1, 2, 3}, {3}));
  CHECK(x.to_vector<float>() == Values{1, 2, 3, 1, 2, 3});
  x.add_(ones({2, 1}), -0.5);
  CHECK(x.to_vector<float>() == Values{0.5, 1.5, 2.5, 0.5, 1.5, 2.5});
}

TEST_CASE("misuse is an error that says what was wanted") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH(untracked::reshape(x, {4, 2}),
                    "reshape: number of elements differs; got (2, 3) to (4, 2)");
  CHECK_THROWS_WITH(x.data<double>(), "data: wrong type; got f64, want f32, the tensor's");
  CHECK_THROWS_WITH(x.item(), "item: want exactly one element; got shape (2, 3)");
  CHECK_THROWS_AS(untracked::select(x, 2, 0), Error);
  CHECK_THROWS_AS(untracked::narrow(x, 0, 1, 2), Error);
  CHECK_THROWS_AS(empty({-1}), Error);
  CHECK_THROWS_AS(Tensor().item(), Error);
  CHECK_THROWS_AS(from_vector<float>({1, 2}, {3}), Error);
}

TEST_CASE("every call on an undefined tensor is an error, but those that are documented") {
  Tensor x;
  const Tensor& u = x;
  CHECK_THROWS_WITH_AS(u.shape(), "shape: tensor is undefined", Error);
  CHECK_THROWS_WITH_AS(u.requires_grad(), "requires_grad: tensor is undefined", Error);
  const std::vector<std::function<void()>> calls = {
      [&] { u.strides(); }, [&] { u.ndim(); }, [&] { u.size(0); }, [&] { u.numel(); },
      [&] { u.dtype(); }, [&] { u.device(); }, [&] { u.bytes(); }, [&] { u.is_contiguous(); },
      [&] { u.data(); }, [&] { u.data<float>(); }, [&] { u.item(); },
      [&] { u.to_vector<float>(); }, [&] { x.fill_(1); }, [&] { x.zero_(); },
      [&] { x.copy_(zeros({})); }, [&] { zeros({}).copy_(u); }, [&] { x.add_(zeros({})); },
      [&] { zeros({}).add_(u); }, [&] { x.mul_(2); }, [&] { u.version(); },
      [&] { u.bump_version(); }, [&] { u.detach(); }, [&] { u.clone(); }, [&] { u.to(Device{}); },
      [&] { empty_like(u); }, [&] { zeros_like(u); }, [&] { ones_like(u); },
      [&] { untracked::reshape(u, {1}); },
      [&] { untracked::strided(u, {1}, {1}, 0); }, [&] { untracked::permute(u, {}); },
      [&] { untracked::transpose(u, 0, 1); }, [&] { untracked::expand(u, {1}); },
      [&] { untracked::narrow(u, 0, 0, 0); }, [&] { untracked::select(u, 0, 0); },
      [&] { untracked::unsqueeze(u, 0); }, [&] { untracked::squeeze(u, 0); },
      [&] { untracked::contiguous(u); }, [&] { untracked::cast(u, DType::f32); },
      [&] { untracked::sum_to(u, {1}); }, [&] { fill_uniform(x, 0, 1); },
      [&] { fill_normal(x, 0, 1); }};
  for (size_t i = 0; i < calls.size(); ++i) CHECK_THROWS_AS_MESSAGE(calls[i](), Error, i);
  CHECK_FALSE(u.defined());
  CHECK_FALSE(u.shares_storage(zeros({})));
  CHECK(u.view().data == nullptr);
  CHECK(u.to_string() == "undefined tensor");
  CHECK(u.body() == nullptr);
}

TEST_CASE("a tensor on a CUDA device that is not there is an error that says so") {
  const bool none = kernels::cuda_device_count() == 0;
  const auto create = [](int8_t index) {
    return empty({2, 3}, {.device = {DeviceType::cuda, index}});
  };
  CHECK_THROWS_WITH_AS(create(100),
                       doctest::Contains(none ? "no usable CUDA device" : "does not exist"), Error);
  if (none) CHECK_THROWS_WITH_AS(create(0), doctest::Contains("got cuda:0, want cpu"), Error);
}

TEST_CASE("a tensor prints its values, dtype and shape") {
  CHECK(counting({2, 2}).to_string() == "[[0, 1], [2, 3]] f32 (2, 2)");
  CHECK(from_vector<bool>({true, false}, {2}).to_string() == "[1, 0] bool (2,)");
  CHECK(zeros({2000}).to_string() == "[0, 0, 0, ..., 0, 0, 0] f32 (2000,)");
  const int64_t large = (int64_t{1} << 53) + 1;  // not representable as double
  CHECK(from_vector<int64_t>({large, -large}, {2}).to_string() ==
        "[9007199254740993, -9007199254740993] i64 (2,)");
}

TEST_CASE("memory of somebody else is used in place and given back once") {
  float values[4] = {1, 2, 3, 4};
  int released = 0;
  {
    Tensor x = from_memory(values, {4}, {}, [&] { ++released; });
    const Tensor view = untracked::narrow(x, 0, 1, 2);
    x = Tensor();
    CHECK(view.to_vector<float>() == Values{2, 3});
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("tensors like another have its shape and dtype, and numbers of their own") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64}) {
    const Tensor x = full({3, 2}, 7, {.dtype = dtype});
    for (const auto& [like, value] : {std::pair(zeros_like(untracked::transpose(x, 0, 1)), 0.0),
                                      std::pair(ones_like(untracked::transpose(x, 0, 1)), 1.0)}) {
      CHECK(like.dtype() == dtype);
      CHECK(like.shape() == Shape{2, 3});
      CHECK(like.to_vector<double>() == std::vector<double>(6, value));
    }
    CHECK(x.to_vector<double>() == std::vector<double>(6, 7));
  }
}

TEST_CASE("GPU: every number but 0 is true" * on_gpu()) {
  CHECK(full({2}, 0.5, {DType::boolean, gpu}).to_vector<bool>() == std::vector<bool>{true, true});
}
