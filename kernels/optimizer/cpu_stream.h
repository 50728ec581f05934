// Prefetching and non-temporal stores, for a pass over more memory than the caches hold that
// accesses its streams in bursts. The hardware then prefetches too little, and fetches lines only
// to overwrite them. On two Zen 4 cores this shortens the step on ViT-B's f16 weights from 34.9 to
// 31.9 ms on two chiplets, and from 50.5 to 48.9 ms on one.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace booster::kernels::BOOSTER_VARIANT {

constexpr int64_t cache_line = 64;

// Prefetches `bytes` bytes that will be read soon. The address may be invalid.
inline void read_ahead(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i);
}

#if defined(__AVX512F__)
using Streamed = __m512i;
inline void stream_one(char* to, const char* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__SSE2__)
using Streamed = __m128i;
inline void stream_one(char* to, const char* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

// Copies to memory that is not read soon; other threads may read it after end_of_streams().
inline void stream(char* to, const char* from, int64_t bytes) {
#ifdef __SSE2__
  constexpr int64_t piece = sizeof(Streamed);
  if (reinterpret_cast<uintptr_t>(to) % piece == 0 && bytes % piece == 0) {
    for (int64_t i = 0; i < bytes; i += piece) stream_one(to + i, from + i);
    return;
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
inline void end_of_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace booster::kernels::BOOSTER_VARIANT
