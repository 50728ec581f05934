// Reads ONNX files: the parts of onnx/onnx.proto that tests need.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace booster::test {

// The fields of a Protocol Buffers message, by number, in order.
class ReadMessage {
 public:
  struct Field {
    uint64_t number = 0;          // a varint, or the bits of a float
    std::string_view bytes = {};  // a text or a message
  };

  explicit ReadMessage(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t key = varint(bytes);
      Field field;
      switch (key & 7) {
        case 0: field.number = varint(bytes); break;
        case 2: field.bytes = taken(bytes, varint(bytes)); break;
        case 5: std::memcpy(&field.number, taken(bytes, 4).data(), 4); break;
        default: throw std::runtime_error("protobuf: unknown wire type");
      }
      fields_[static_cast<int>(key >> 3)].push_back(field);
    }
  }

  const std::vector<Field>& all(int field) const {
    static const std::vector<Field> none;
    const auto found = fields_.find(field);
    return found == fields_.end() ? none : found->second;
  }
  std::string text(int field) const {
    return all(field).empty() ? "" : std::string(all(field)[0].bytes);
  }
  int64_t number(int field) const {
    return all(field).empty() ? 0 : static_cast<int64_t>(all(field)[0].number);
  }
  ReadMessage message(int field) const { return ReadMessage(all(field).at(0).bytes); }

 private:
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(taken(bytes, 1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::string_view taken(std::string_view& bytes, uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("protobuf: the message is too short");
    const std::string_view part = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return part;
  }

  std::map<int, std::vector<Field>> fields_;
};

struct ReadNode {
  std::string operation;
  std::vector<std::string> inputs, outputs;
};

struct ReadOnnx {
  explicit ReadOnnx(const std::string& file) {
    const ReadMessage model(file);
    operator_set = model.message(8).number(2);
    const ReadMessage graph = model.message(7);
    for (const auto& field : graph.all(1)) {
      const ReadMessage node(field.bytes);
      ReadNode read{node.text(4), {}, {}};
      for (const auto& name : node.all(1)) read.inputs.emplace_back(name.bytes);
      for (const auto& name : node.all(2)) read.outputs.emplace_back(name.bytes);
      nodes.push_back(read);
    }
    for (const auto& field : graph.all(5)) {
      const ReadMessage tensor(field.bytes);
      std::vector<int64_t> shape;
      for (const auto& size : tensor.all(1)) shape.push_back(static_cast<int64_t>(size.number));
      weights.emplace(tensor.text(8), shape);
    }
    input = dimensions(graph.message(11));
    output = dimensions(graph.message(12));
    input_type = graph.message(11).message(2).message(1).number(1);
  }

  int count(std::string_view operation) const {
    int n = 0;
    for (const ReadNode& node : nodes) n += node.operation == operation;
    return n;
  }

  int64_t operator_set = 0, input_type = 0;
  std::vector<ReadNode> nodes;
  std::map<std::string, std::vector<int64_t>> weights;  // shapes by name, constants too
  std::vector<std::string> input, output;               // sizes, or names of sizes

 private:
  static std::vector<std::string> dimensions(const ReadMessage& value) {
    std::vector<std::string> sizes;
    const ReadMessage shape = value.message(2).message(1).message(2);
    for (const auto& field : shape.all(1)) {
      const ReadMessage size(field.bytes);
      const std::string name = size.text(2);
      sizes.push_back(name.empty() ? std::to_string(size.number(1)) : name);
    }
    return sizes;
  }
};

}  // namespace booster::test
