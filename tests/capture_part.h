// CAPTURE_PART(x): doctest's CAPTURE for an x that names a part of a structured binding. CAPTURE
// makes a lambda, and before clang 16 no lambda can capture such a name.
#pragma once

#include <doctest/doctest.h>

#define CAPTURE_PART_AS(part, x) \
  const auto& part = x;          \
  INFO(#x " := ", part)
#define CAPTURE_PART(x) CAPTURE_PART_AS(DOCTEST_ANONYMOUS(captured_part_), x)
