// The version of these headers, and their ABI tag, which a library that extends booster must share
// with the program that loads it. (fmt and nlohmann_json have theirs in their symbol names.)
#pragma once

#include <version>

#define BOOSTER_HEADERS_VERSION "0.1.0"

// The standard library whose containers and strings the interface passes.
#if defined(_LIBCPP_VERSION)
#define BOOSTER_STANDARD_LIBRARY "libc++"
#elif defined(_GLIBCXX_DEBUG)
#define BOOSTER_STANDARD_LIBRARY "libstdc++ in debug mode"
#elif _GLIBCXX_USE_CXX11_ABI
#define BOOSTER_STANDARD_LIBRARY "libstdc++"
#else
#define BOOSTER_STANDARD_LIBRARY "libstdc++ with the strings of C++98"
#endif

#define BOOSTER_ABI_TAG "booster-abi: " BOOSTER_HEADERS_VERSION " with " BOOSTER_STANDARD_LIBRARY

namespace booster {

inline constexpr char version[] = BOOSTER_HEADERS_VERSION;
inline constexpr char abi_tag[] = BOOSTER_ABI_TAG;

}  // namespace booster
