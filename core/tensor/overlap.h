// Checks of two obstacles to an in-place write: several elements at one address, and elements that
// the same call has yet to read.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Throws if several elements of x share an address, as in an expanded tensor. A write would change
// each of them more than once, or to another element's value.
void check_places_apart(const char* op, const Tensor& x);

// Returns true if writing `target` element by element may change unread elements of `source`: they
// share memory, and are not the same view. Interleaved views, such as the columns of a matrix,
// count as well.
bool is_source_written(const Tensor& target, const Tensor& source);

}  // namespace booster
