// What may not be written in place: several elements at one place in memory, and numbers that the
// same call still reads.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Error if several of x's elements lie at one place, as those of an expanded tensor: each would be
// changed more than once, or to what another becomes.
void check_places_apart(const char* op, const Tensor& x);

// True if a write of `target`, element by element, may change what is still to be read of `source`:
// they share memory, and are not the same view. Views whose elements lie between each other's, as
// the columns of a matrix, count as well.
bool is_source_written(const Tensor& target, const Tensor& source);

}  // namespace booster
