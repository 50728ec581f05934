// Mutates inputs at random, like a fuzzer without coverage feedback.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace booster::fuzz {

class Mutator {
 public:
  // `corpus` must outlive it.
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {}

  // Returns one input of the corpus with one to four changes; at most `largest` bytes.
  std::string next();

  static constexpr size_t largest = size_t{1} << 18;

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  void change(std::string& input);
  void change_number(std::string& input);
  void splice(std::string& input);
  void repeat(std::string& input);

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace booster::fuzz
