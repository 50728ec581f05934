#include "core/text/piece_cache.h"

#include <functional>

namespace booster::text {
namespace {

// Holds a place while it lives, or nothing if another thread holds it.
class Hold {
 public:
  explicit Hold(std::atomic_flag& used)
      : used_(used), held_(!used.test_and_set(std::memory_order_acquire)) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (held_) used_.clear(std::memory_order_release);
  }
  explicit operator bool() const { return held_; }

 private:
  std::atomic_flag& used_;
  bool held_;
};

}  // namespace

PieceCache::PieceCache(size_t places) : places_(places) {}

PieceCache::Place& PieceCache::place_of(std::string_view piece) {
  return places_[std::hash<std::string_view>{}(piece) & (places_.size() - 1)];
}

bool PieceCache::find(std::string_view piece, std::vector<int32_t>& tokens) {
  Place& place = place_of(piece);
  const Hold hold(place.used);
  if (!hold || place.piece != piece) return false;
  tokens.insert(tokens.end(), place.tokens.begin(), place.tokens.end());
  return true;
}

void PieceCache::keep(std::string_view piece, const std::vector<int32_t>& tokens) {
  Place& place = place_of(piece);
  const Hold hold(place.used);
  if (!hold) return;
  place.piece = piece;
  place.tokens = tokens;
}

}  // namespace booster::text
