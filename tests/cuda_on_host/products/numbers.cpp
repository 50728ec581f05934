#include "tests/cuda_on_host/products/numbers.h"

#include "tests/cuda_on_host/device/arena.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/halves.h"
#include "tests/cuda_on_host/device/watch.h"

#include <cmath>
#include <cstring>

namespace cuda_on_host {
namespace {

template <class Value>
Value read(const void* at) {
  Value value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class Value>
void write(void* at, Value value) {
  std::memcpy(at, &value, sizeof value);
}

// Decodes by the definition: bias 7, no infinity.
double from_e4m3(uint8_t code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  const double sign = code >> 7 ? -1 : 1;
  if ((code & 0x7F) == 0x7F) return NAN;
  return sign * (exponent ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9));
}

}  // namespace

int64_t size_of(Number type) {
  switch (type) {
    case Number::f64: return 8;
    case Number::f32: return 4;
    case Number::f16:
    case Number::bf16: return 2;
    default: return 1;
  }
}

double load(const void* at, Number type) {
  switch (type) {
    case Number::f64: return read<double>(at);
    case Number::f32: return read<float>(at);
    case Number::bf16: return from_bf16(read<uint16_t>(at));
    case Number::e4m3: return from_e4m3(read<uint8_t>(at));
    case Number::e5m2: return from_f16(static_cast<uint16_t>(read<uint8_t>(at) << 8));
    default: return from_f16(read<uint16_t>(at));
  }
}

void store(void* at, Number type, double value) {
  switch (type) {
    case Number::f64: return write(at, value);
    case Number::f32: return write(at, static_cast<float>(value));
    case Number::bf16: return write(at, to_bf16(static_cast<float>(value)));
    default: return write(at, to_f16(static_cast<float>(value)));
  }
}

float round_to_tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (std::isfinite(x)) bits = (bits + 0xFFF + ((bits >> 13) & 1)) & ~uint32_t{0x1FFF};
  std::memcpy(&x, &bits, 4);
  return x;
}

void open_for(const char* call, const char* what, const void* address, int64_t bytes,
              bool is_read) {
  if (bytes == 0) return;
  if (!is_on_device(address)) fault("{}: {} is not in the device's memory", call, what);
  const std::string wrong = open_on_device(address, static_cast<size_t>(bytes));
  if (!wrong.empty()) fault("{}: {} touches {}", call, what, wrong);
  if (is_read && !is_written(address, static_cast<size_t>(bytes)))
    fault("{}: {} holds numbers that nobody has written", call, what);
}

void open_workspace(const char* call, void* address, int64_t bytes) {
  if (bytes == 0) return;
  open_for(call, "the workspace", address, bytes, false);
  std::memset(address, 0xAB, static_cast<size_t>(bytes));
  mark_written(address, static_cast<size_t>(bytes));
}

uint64_t alignment_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address) | 256;
  return at & -at;
}

void check_alignment(const char* call, const char* what, const void* address, uint64_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fault("{}: {} is less aligned than was promised, {} bytes", call, what, bytes);
}

}  // namespace cuda_on_host
