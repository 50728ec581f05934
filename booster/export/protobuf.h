// Messages in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding), put
// together field by field: what the files of ONNX and TensorBoard are made of. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster::protobuf {

// Appends a number of variable length: seven bits a byte, the low ones first.
void append_varint(std::string& bytes, uint64_t value);
// Appends what stands before a field of `size` bytes: its number, and that length.
void append_header(std::string& bytes, int field, uint64_t size);

class Message {
 public:
  // int32, int64, uint64, bool and enum fields.
  Message& integer(int field, int64_t value);
  Message& number(int field, float value);
  Message& number(int field, double value);
  // string and bytes fields.
  Message& text(int field, std::string_view value);
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace booster::protobuf
