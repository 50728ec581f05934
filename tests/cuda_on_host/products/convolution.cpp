#include "tests/cuda_on_host/products/convolution.h"

#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/watch.h"
#include "tests/cuda_on_host/products/numbers.h"

#include <cstdlib>

namespace cuda_on_host {

bool plays(std::string_view what) {
  const char* chosen = std::getenv("CUDA_ON_HOST_CUDNN");
  return chosen && what == chosen;
}

namespace {

Number number_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return Number::f64;
    case CUDNN_DATA_FLOAT: return Number::f32;
    case CUDNN_DATA_BFLOAT16: return Number::bf16;
    default: return Number::f16;
  }
}

}  // namespace

Four dense(const Four& shape, cudnnTensorFormat_t format) {
  const auto [n, c, h, w] = shape;
  return format == CUDNN_TENSOR_NHWC ? Four{h * w * c, 1, w * c, c} : Four{c * h * w, h * w, w, 1};
}

namespace {

int64_t size_of(const Tensor& tensor) {
  const auto [n, c, h, w] = tensor.shape;
  return n * c * h * w;
}

bool lies_as(const Tensor& tensor, cudnnTensorFormat_t format) {
  const Four want = dense(tensor.shape, format);
  for (int i = 0; i < 4; ++i)
    if (tensor.shape[i] != 1 && tensor.strides[i] != want[i]) return false;
  return true;
}

}  // namespace

cudnnStatus_t Problem::check() const {
  if (!x.is_set || !filter.is_set || !y.is_set || !convolution.is_set)
    return CUDNN_STATUS_BAD_PARAM;
  const Convolution& how = convolution;
  if (x.type != filter.type || x.type != y.type || how.compute != CUDNN_DATA_FLOAT ||
      x.type == CUDNN_DATA_DOUBLE)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (how.mode != CUDNN_CROSS_CORRELATION) fault("cuDNN: the filter is turned around");
  if (!lies_as(x, filter.format) || !lies_as(y, filter.format))
    fault("cuDNN: tensors do not lie as their filter does");
  if (x.shape[0] != y.shape[0] || x.shape[1] != filter.shape[1] * how.groups ||
      y.shape[1] != filter.shape[0] || filter.shape[0] % how.groups != 0)
    return CUDNN_STATUS_BAD_PARAM;
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = how.dilation[i] * (filter.shape[2 + i] - 1) + 1;
    const int64_t room = x.shape[2 + i] + 2 * how.padding[i] - reach;
    if (room < 0 || room / how.stride[i] + 1 != y.shape[2 + i]) return CUDNN_STATUS_BAD_PARAM;
  }
  if (written != Written::y && algorithm == 0) fault("cuDNN: an algorithm sums in any order");
  const bool is_refused =
      plays("refused") || (plays("one_layout") && filter.format == CUDNN_TENSOR_NHWC);
  return is_refused ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

// Returns a size that is the same for equal problems.
size_t Problem::workspace_bytes() const {
  if (plays("hungry") && written == Written::y && algorithm != 0) return size_t{1} << 40;
  return static_cast<size_t>((x.shape[1] + y.shape[2] + algorithm) % 3) * 1000;
}

const Tensor& QueuedConvolution::written_layout() const {
  switch (problem.written) {
    case Written::x: return problem.x;
    case Written::filter: return problem.filter;
    default: return problem.y;
  }
}

int64_t place(const Tensor& tensor, int64_t n, int64_t c, int64_t h, int64_t w) {
  const Four& s = tensor.strides;
  return n * s[0] + c * s[1] + h * s[2] + w * s[3];
}

template <class Body>
void QueuedConvolution::for_each_product(Body&& body) const {
  const auto& [x, filter, y, how, written, algorithm] = problem;
  const auto [images, features, height, width] = y.shape;
  const auto [outputs, channels, rows, columns] = filter.shape;
  for (int64_t n = 0; n < images; ++n)
    for (int64_t k = 0; k < features; ++k)
      for (int64_t i = 0; i < height * width; ++i)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t s = 0; s < columns; ++s) {
            const int64_t h = i / width * how.stride[0] - how.padding[0] + r * how.dilation[0];
            const int64_t w = i % width * how.stride[1] - how.padding[1] + s * how.dilation[1];
            if (h < 0 || h >= x.shape[2] || w < 0 || w >= x.shape[3]) continue;
            const int64_t first = k / (outputs / how.groups) * channels;
            int64_t in_x = place(x, n, first, h, w), in_filter = place(filter, k, 0, r, s);
            const int64_t in_y = place(y, n, k, i / width, i % width);
            for (int64_t c = 0; c < channels; ++c) {
              body(in_x, in_filter, in_y);
              in_x += x.strides[1];
              in_filter += filter.strides[1];
            }
          }
}

std::vector<float> QueuedConvolution::sums() const {
  const Number type = number_of(problem.x.type);
  const bool rounds = type == Number::f32 && problem.convolution.math != CUDNN_FMA_MATH;
  const auto numbers = [&](const Tensor& tensor, const char* data) {
    std::vector<float> values(static_cast<size_t>(size_of(tensor)));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value =
          static_cast<float>(load(data + i * static_cast<size_t>(size_of(type)), type));
      values[i] = rounds ? round_to_tf32(value) : value;
    }
    return values;
  };
  const Written written = problem.written;
  std::vector<float> sums(static_cast<size_t>(size_of(written_layout())));
  const auto of_x = written == Written::x ? sums : numbers(problem.x, x);
  const auto of_filter = written == Written::filter ? sums : numbers(problem.filter, filter);
  const auto of_y = written == Written::y ? sums : numbers(problem.y, y);
  switch (written) {
    case Written::x:
      for_each_product([&](int64_t in_x, int64_t in_filter, int64_t in_y) {
        sums[in_x] += of_filter[in_filter] * of_y[in_y];
      });
      break;
    case Written::filter:
      for_each_product([&](int64_t in_x, int64_t in_filter, int64_t in_y) {
        sums[in_filter] += of_x[in_x] * of_y[in_y];
      });
      break;
    default:
      for_each_product([&](int64_t in_x, int64_t in_filter, int64_t in_y) {
        sums[in_y] += of_x[in_x] * of_filter[in_filter];
      });
  }
  return sums;
}

void QueuedConvolution::compute() const {
  const Number type = number_of(problem.x.type);
  const Written written = problem.written;
  const auto open = [&](const Tensor& tensor, const char* data, const char* what, bool is_result) {
    open_for(call, what, data, size_of(tensor) * size_of(type), !is_result || beta != 0);
  };
  open(problem.x, x, "x", written == Written::x);
  open(problem.filter, filter, "the filter", written == Written::filter);
  open(problem.y, y, "y", written == Written::y);
  open_workspace(call, workspace, static_cast<int64_t>(problem.workspace_bytes()));
  const std::vector<float> all = sums();
  char* result = const_cast<char*>(written == Written::x        ? x
                                   : written == Written::filter ? filter
                                                                : y);
  const auto step = static_cast<size_t>(size_of(type));
  for (size_t i = 0; i < all.size(); ++i, result += step) {
    float sum = alpha * all[i];
    if (beta != 0) sum += beta * static_cast<float>(load(result, type));
    store(result, type, sum);
    mark_written(result, step);
  }
}

}  // namespace cuda_on_host
