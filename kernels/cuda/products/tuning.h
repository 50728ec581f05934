// Which of the algorithms that cuBLASLt proposes computes a product: the first, which the library
// estimates to be the fastest, or, with BOOSTER_TUNE_PRODUCTS=1, the one that is the fastest when
// the product is first computed. That choice is kept on disk, so that the next process has the same
// bits. A job of several ranks times nothing: they could choose differently.
// BOOSTER_TUNED_PRODUCTS=FILE takes the choices of a process that was alone, and nothing else.
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace booster::kernels::cuda {

// How many algorithms to ask the library for; with one there is nothing to choose.
int algorithms_to_propose();

// The number of the algorithm that was chosen for a product on the device in use; nothing: none
// was. Error if the file that was named cannot be read, or is not of this GPU, driver and library.
std::optional<int> chosen_algorithm(const std::string& product);
// Whether a product for which none was chosen is to be timed.
bool times_products();
// Runs each of `count` algorithms several times on the stream in use, waits, and keeps and gives
// the number of the fastest. `run(i)` is false if the library refuses that one.
int choose_algorithm(const std::string& product, int count, const std::function<bool(int)>& run);

}  // namespace booster::kernels::cuda
