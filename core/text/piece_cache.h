// Tokens of pieces that were met before. A piece has one place, given by its hash; a newer piece
// takes the place of an older one, so the memory is bounded. Thread-safe; nobody waits: a place
// that another thread uses counts as a miss.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace booster::text {

class PieceCache {
 public:
  explicit PieceCache(size_t places = size_t{1} << 15);  // a power of two

  // Appends the piece's tokens if it is known.
  bool find(std::string_view piece, std::vector<int32_t>& tokens);
  void keep(std::string_view piece, const std::vector<int32_t>& tokens);

 private:
  struct Place {
    std::atomic_flag used = ATOMIC_FLAG_INIT;
    std::string piece;
    std::vector<int32_t> tokens;
  };
  Place& place_of(std::string_view piece);

  std::vector<Place> places_;
};

}  // namespace booster::text
