// The three files that every program has open.
#pragma once

namespace booster::kernels {

// Opens /dev/null for standard input, output or error that this process was started without: the
// next file that it opens would take the descriptor, and get what is printed.
void open_standard_files();

}  // namespace booster::kernels
