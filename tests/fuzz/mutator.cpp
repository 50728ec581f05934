#include "tests/fuzz/mutator.h"

#include <algorithm>

namespace booster::fuzz {

namespace {

constexpr const char* numbers[] = {"0", "-1", "1e999", "-0.0", "2147483648", "9223372036854775807",
                                   "9223372036854775808", "18446744073709551616", "4294967297",
                                   "1e-400", "NaN", "0.1", "1e308", "99999999999999999999999999"};
constexpr uint64_t words[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000,
                              0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

}  // namespace

std::string Mutator::next() {
  std::string input = corpus_[below(corpus_.size())];
  for (size_t changes = 1 + below(4); changes > 0; --changes) change(input);
  if (input.size() > largest) input.resize(largest);
  return input;
}

void Mutator::change(std::string& input) {
  const size_t at = below(input.size());
  switch (below(12)) {
    case 0:
    case 1:
      if (!input.empty()) input[at] ^= static_cast<char>(1 << below(8));
      break;
    case 2:
      if (!input.empty()) input[at] = static_cast<char>(random_());
      break;
    case 3: input.insert(at, 1 + below(4), static_cast<char>(random_())); break;
    case 4: input.erase(at, 1 + below(below(2) ? 8 : input.size() + 1)); break;
    case 5: input.resize(at); break;
    case 6: {
      const uint64_t word = words[below(std::size(words))];
      for (size_t i = 0, n = size_t{1} << below(4); i < n && at + i < input.size(); ++i)
        input[at + i] = static_cast<char>(word >> 8 * (below(2) ? i : n - 1 - i));
      break;
    }
    case 7:
    case 8: change_number(input); break;
    case 9:
    case 10: splice(input); break;
    default:
      if (below(16) == 0) repeat(input);
  }
}

void Mutator::change_number(std::string& input) {
  const auto found = std::find_if(input.begin() + static_cast<ptrdiff_t>(below(input.size())),
                                  input.end(), is_digit);
  const auto end = std::find_if_not(found, input.end(), is_digit);
  input.replace(found, end, numbers[below(std::size(numbers))]);
}

// Inserts a part of one input into another.
void Mutator::splice(std::string& input) {
  const std::string& other = corpus_[below(corpus_.size())];
  const size_t from = below(other.size());
  input.insert(below(input.size()), other, from, 1 + below(below(2) ? 16 : other.size()));
}

// Nests, lengthens and multiplies parts: linear code stays fast, quadratic code does not.
void Mutator::repeat(std::string& input) {
  const size_t at = below(input.size());
  const std::string part = input.substr(at, 1 + below(below(2) ? 4 : 64));
  if (part.empty()) return;
  std::string many;
  for (size_t n = (size_t{1} << below(19)) / part.size() + 1; n > 0; --n) many += part;
  input.insert(at, many);
}

}  // namespace booster::fuzz
