// Chooses among the algorithms that cuBLASLt proposes for a product. By default it is the first,
// which the library estimates to be the fastest.
//
// With BOOSTER_TUNE_PRODUCTS=1 the first computation of a product times them and takes the fastest.
// The choice is kept on disk, so that the next process has the same bits. A job of several ranks
// times nothing, because its ranks could choose differently.
//
// BOOSTER_TUNED_PRODUCTS=FILE takes the choices of an earlier single process, and times nothing.
//
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace booster::kernels::cuda {

// Returns how many algorithms to request from the library; 1 without tuning.
int algorithms_to_propose();

// Returns the number of the chosen algorithm for a product on the device in use; nothing if none
// was chosen. Throws if the named file cannot be read, or is for another GPU, driver or library.
std::optional<int> chosen_algorithm(const std::string& product);
// Returns true if a product without a chosen algorithm must be timed.
bool times_products();
// Runs each of `count` algorithms several times on the stream in use, waits, and keeps and returns
// the number of the fastest. `run(i)` returns false if the library refuses that algorithm.
int choose_algorithm(const std::string& product, int count, const std::function<bool(int)>& run);

}  // namespace booster::kernels::cuda
