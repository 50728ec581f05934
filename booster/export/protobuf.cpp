#include "booster/export/protobuf.h"

#include <bit>

namespace booster::protobuf {

namespace {

enum WireType { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

void append_key(std::string& bytes, int field, WireType type) {
  append_varint(bytes, static_cast<uint64_t>(field) << 3 | type);
}

}  // namespace

void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_header(std::string& bytes, int field, uint64_t size) {
  append_key(bytes, field, length_delimited);
  append_varint(bytes, size);
}

Message& Message::integer(int field, int64_t value) {
  append_key(bytes_, field, varint);
  append_varint(bytes_, static_cast<uint64_t>(value));
  return *this;
}

Message& Message::number(int field, float value) {
  append_key(bytes_, field, fixed32);
  append_fixed(bytes_, std::bit_cast<uint32_t>(value));
  return *this;
}

Message& Message::number(int field, double value) {
  append_key(bytes_, field, fixed64);
  append_fixed(bytes_, std::bit_cast<uint64_t>(value));
  return *this;
}

Message& Message::text(int field, std::string_view value) {
  append_header(bytes_, field, value.size());
  bytes_ += value;
  return *this;
}

}  // namespace booster::protobuf
