// Chooses among the algorithms that cuBLASLt proposes for a product. By default it is the first,
// which the library estimates to be the fastest.
//
// With BOOSTER_TUNE_PRODUCTS=1 it is the one that is fastest when the product is first computed.
// That choice is kept on disk, so that the next process has the same bits. A job of several ranks
// times nothing: they could choose differently.
//
// BOOSTER_TUNED_PRODUCTS=FILE takes the choices of an earlier single process, and times nothing.
//
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace booster::kernels::cuda {

// Returns how many algorithms to request from the library; with one there is nothing to choose.
int algorithms_to_propose();

// Returns the number of the chosen algorithm for a product on the device in use; nothing if none
// was chosen. Error if the named file cannot be read, or is not of this GPU, driver and library.
std::optional<int> chosen_algorithm(const std::string& product);
// Returns whether to time a product without a chosen algorithm.
bool times_products();
// Runs each of `count` algorithms several times on the stream in use, waits, and keeps and returns
// the number of the fastest. `run(i)` returns false if the library refuses that algorithm.
int choose_algorithm(const std::string& product, int count, const std::function<bool(int)>& run);

}  // namespace booster::kernels::cuda
