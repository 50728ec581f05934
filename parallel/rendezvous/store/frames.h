// The messages between a store and its ranks: a kind and some texts.
//
// On the wire: the length of what follows (4 bytes, little endian), the kind (1 byte), and for each
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
  left,       // store: rank, why ("" if it has merely ended)
  failed,     // both: why a rank gives up; the store passes on the first
  alive       // both: a sign of life
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  std::vector<std::string> texts;
};

std::string encoded(const Frame& frame);
// What the proof of a hello is for: all that it says.
std::string purpose_of(const Frame& hello);

// Cuts what arrives into frames. One thread at a time.
class FrameReader {
 public:
  // Frames that are longer than `longest` bytes are an error.
  explicit FrameReader(size_t longest) : longest_(longest) {}
  void set_longest(size_t bytes) { longest_ = bytes; }
  void add(std::string_view bytes) { received_ += bytes; }
  // The next whole frame, if one is there. Error (kind data) for bytes that are none, or for a
  // number of texts other than its kind's.
  std::optional<Frame> next();

 private:
  std::string received_;
  size_t longest_;
};

// A rank, or another number of at most `most`, as a frame's text; error (kind data) if it is none.
int number_in(const std::string& text, int most);

}  // namespace booster
