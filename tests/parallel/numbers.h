// Contiguous values in any dtype, read and written as doubles.
#pragma once

#include "kernels/catalogue.h"
#include "parallel/operations/operation.h"

#include <vector>

inline booster::kernels::View view_of(const booster::Buffer& buffer) {
  return {.data = buffer.data,
          .dtype = buffer.dtype,
          .ndim = 1,
          .shape = {buffer.count},
          .strides = {1}};
}

struct Numbers {
  std::vector<std::byte> memory;
  booster::Buffer buffer;

  Numbers(int64_t count, booster::DType dtype)
      : memory(static_cast<size_t>(count * size_of(dtype) + 1)),
        buffer(memory.data(), count, dtype) {}
  Numbers(std::vector<double> values, booster::DType dtype)
      : Numbers(static_cast<int64_t>(values.size()), dtype) {
    convert(view_of(buffer), view_of(booster::Buffer(values)));
  }
  std::vector<double> values() const {
    std::vector<double> result(static_cast<size_t>(buffer.count));
    convert(view_of(booster::Buffer(result)), view_of(buffer));
    return result;
  }

 private:
  static void convert(const booster::kernels::View& to, const booster::kernels::View& from) {
    if (to.shape[0] > 0) booster::kernels::on({}).copy(to, from);
  }
};
