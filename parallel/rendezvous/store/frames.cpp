#include "parallel/rendezvous/store/frames.h"

#include "platform/error.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace booster {

namespace {

constexpr size_t length_bytes = 4;
constexpr size_t texts_of_kind[] = {1, 6, 2, 1, 2, 1, 2, 2, 2, 1, 0, 1};

void append_length(std::string& out, size_t length) {
  for (size_t i = 0; i < length_bytes; ++i) out += static_cast<char>(length >> (8 * i));
}

size_t length_at(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return length;
}

Frame decoded(std::string_view bytes) {
  const auto kind = static_cast<uint8_t>(bytes[0]);
  if (kind >= std::size(texts_of_kind)) fail_data("store: unknown kind of frame; got {}", kind);
  Frame frame{static_cast<FrameKind>(kind), {}};
  for (bytes.remove_prefix(1); !bytes.empty();) {
    const size_t length = bytes.size() < length_bytes ? bytes.size() : length_at(bytes);
    if (bytes.size() < length_bytes + length)
      fail_data("store: a text of {} bytes exceeds its frame", length);
    frame.texts.emplace_back(bytes.substr(length_bytes, length));
    bytes.remove_prefix(length_bytes + length);
  }
  if (frame.texts.size() != texts_of_kind[kind])
    fail_data("store: a frame of kind {} has {} texts; want {}", kind, frame.texts.size(),
              texts_of_kind[kind]);
  return frame;
}

}  // namespace

std::string encoded(const Frame& frame) {
  std::string body(1, static_cast<char>(frame.kind));
  for (const std::string& text : frame.texts) {
    append_length(body, text.size());
    body += text;
  }
  std::string bytes;
  append_length(bytes, body.size());
  return bytes + body;
}

std::string purpose_of(const Frame& hello) {
  return encoded({hello.kind, {hello.texts.begin() + 2, hello.texts.end()}});
}

std::optional<Frame> FrameReader::next() {
  if (received_.size() < length_bytes) return std::nullopt;
  const size_t length = length_at(received_);
  if (length == 0 || length > longest_)
    fail_data("store: frame size out of range; got {} bytes, want 1 to {}", length, longest_);
  if (received_.size() < length_bytes + length) return std::nullopt;
  Frame frame = decoded(std::string_view(received_).substr(length_bytes, length));
  received_.erase(0, length_bytes + length);
  return frame;
}

int number_in(const std::string& text, int most) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    fail_data("store: number out of range; got '{1:.20}', want 0 to {0}", most, text);
  return value;
}

}  // namespace booster
