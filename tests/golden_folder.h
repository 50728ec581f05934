// The location of the golden files. Only one source file is compiled with that path, so that a
// compiler cache works for the others in every checkout.
#pragma once

#include <string>

namespace booster::test {

// Returns tests/golden of the source tree, without a trailing slash.
std::string golden_folder();

}  // namespace booster::test
