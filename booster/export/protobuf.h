// Builds messages in the wire format of Protocol Buffers
// (protobuf.dev/programming-guides/encoding), field by field. ONNX and TensorBoard files consist of
// such messages. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster::protobuf {

// Appends an integer's bytes, the low ones first.
template <class Bits>
void append_fixed(std::string& bytes, Bits bits) {
  for (size_t i = 0; i < sizeof bits; ++i) bytes += static_cast<char>(bits >> (8 * i));
}

// Appends an integer as a varint: seven bits per byte, the low ones first.
void append_varint(std::string& bytes, uint64_t value);
// Appends the header of a field of `size` bytes: its field number and the size.
void append_header(std::string& bytes, int field, uint64_t size);

class Message {
 public:
  // Adds an int32, int64, uint64, bool or enum field.
  Message& integer(int field, int64_t value);
  Message& number(int field, float value);
  Message& number(int field, double value);
  // Adds a string or bytes field.
  Message& text(int field, std::string_view value);
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace booster::protobuf
