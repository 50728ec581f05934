// The messages between a store and its ranks: a kind and some texts.
//
// On the wire: the length of the rest (4 bytes, little endian), the kind (1 byte), and for each
// text its length (4 bytes) and its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

enum class FrameKind : uint8_t {
  challenge,  // store: nonce
  hello,      // rank: nonce, proof, rank, size, job, process
  welcome,    // store: proof, the run's random name
  refused,    // store: why
  put,        // rank: key, value
  get,        // rank: key
  value,      // store: key, value
  joined,     // store: rank, process
  left,       // store: rank, reason ("" if it ended normally)
  failed,     // both: why a rank fails; the store forwards the first
  alive,      // both: a sign of life
  absent      // store: key without a value so far; the value follows once a rank puts it
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  std::vector<std::string> texts;
};

std::string encoded(const Frame& frame);
// Returns what the proof of a hello covers: its whole content.
std::string purpose_of(const Frame& hello);

// Cuts the received bytes into frames. One thread at a time.
class FrameReader {
 public:
  // Throws for frames longer than `longest` bytes.
  explicit FrameReader(size_t longest) : longest_(longest) {}
  void set_longest(size_t bytes) { longest_ = bytes; }
  void add(std::string_view bytes) { received_ += bytes; }
  // Returns the next complete frame, if there is one. Throws (kind data) for bytes that are no
  // frame, or for a wrong number of texts.
  std::optional<Frame> next();

 private:
  std::string received_;
  size_t longest_;
};

// Parses a rank, or another number from 0 to `most`, from a frame's text. Throws (kind data) for
// other text.
int number_in(const std::string& text, int most);

}  // namespace booster
