#include "booster/export/onnx_graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::onnx {

namespace {

using protobuf::Message;

// Field numbers in onnx/onnx.proto.
enum AttributeField {
  attribute_name = 1,
  as_float = 2,
  as_int = 3,
  as_text = 4,
  as_ints = 8,
  attribute_kind = 20
};
enum AttributeKind { kind_float = 1, kind_int = 2, kind_text = 3, kind_ints = 7 };
enum NodeField { node_input = 1, node_output = 2, node_name = 3, op_type = 4, node_attribute = 5 };
enum GraphField { node = 1, graph_name = 2, graph_input = 11, graph_output = 12 };
enum ValueField { value_name = 1, value_type = 2 };
enum TypeField { tensor_type = 1, elem_type = 1, shape_of_type = 2 };
enum ShapeField { dimension = 1, dim_value = 1, dim_param = 2 };

// Returns the ValueInfoProto of a tensor.
Message value_info(const std::string& name, Kind kind, const Graph::Dimensions& dimensions) {
  Message shape;
  for (const std::string& size : dimensions) {
    const bool is_number = std::ranges::all_of(size, [](char c) { return c >= '0' && c <= '9'; });
    shape.message(dimension, is_number ? Message().integer(dim_value, std::stoll(size))
                                       : Message().text(dim_param, size));
  }
  const Message tensor =
      Message().integer(elem_type, element_type(kind)).message(shape_of_type, shape);
  return Message()
      .text(value_name, name)
      .message(value_type, Message().message(tensor_type, tensor));
}

}  // namespace

Kind kind_of(DType dtype) {
  if (is_floating(dtype)) return Kind::floating;
  return dtype == DType::boolean ? Kind::truth : Kind::integer;
}

int64_t element_type(Kind kind) {
  switch (kind) {
    case Kind::floating: return 1;
    case Kind::integer: return 7;
    case Kind::truth: return 9;
  }
  return 0;
}

Message attribute(const std::string& name, int64_t value) {
  return Message()
      .text(attribute_name, name)
      .integer(as_int, value)
      .integer(attribute_kind, kind_int);
}

Message attribute(const std::string& name, double value) {
  return Message()
      .text(attribute_name, name)
      .number(as_float, static_cast<float>(value))
      .integer(attribute_kind, kind_float);
}

Message attribute(const std::string& name, const std::vector<int64_t>& values) {
  Message message;
  message.text(attribute_name, name);
  for (const int64_t value : values) message.integer(as_ints, value);
  return message.integer(attribute_kind, kind_ints);
}

Message attribute(const std::string& name, const std::string& value) {
  return Message()
      .text(attribute_name, name)
      .text(as_text, value)
      .integer(attribute_kind, kind_text);
}

Graph::Value Graph::input(const std::string& name, Kind kind, const Dimensions& dimensions) {
  ends_ += Message().message(graph_input, value_info(name, kind, dimensions)).bytes();
  return name;
}

void Graph::output(const Value& value, const std::string& name, Kind kind,
                   const Dimensions& dimensions) {
  const Message same = Message()
                           .text(node_input, value)
                           .text(node_output, name)
                           .text(node_name, name)
                           .text(op_type, "Identity");
  nodes_ += Message().message(node, same).bytes();
  ends_ += Message().message(graph_output, value_info(name, kind, dimensions)).bytes();
}

Graph::Value Graph::weight(const std::string& name, const Tensor& tensor) {
  const auto found = std::ranges::find(weights_, name, &Weight::name);
  if (found == weights_.end()) weights_.push_back({name, tensor});
  return name;
}

Graph::Value Graph::integers(const std::vector<int64_t>& values) {
  return constant(from_vector(values, {static_cast<int64_t>(values.size())}));
}

Graph::Value Graph::index(int64_t value) { return constant(from_vector(std::vector{value}, {})); }

Graph::Value Graph::number(double value) { return constant(booster::scalar(value)); }

Graph::Value Graph::constant(const Tensor& tensor) {
  return weight(fmt::format("constant_{}", weights_.size()), tensor);
}

Graph::Value Graph::add(const std::string& operation, const std::vector<Value>& inputs,
                        const std::vector<Message>& attributes) {
  return add_several(operation, inputs, attributes, 1)[0];
}

std::vector<Graph::Value> Graph::add_several(const std::string& operation,
                                             const std::vector<Value>& inputs,
                                             const std::vector<Message>& attributes, int count) {
  const std::string name = fmt::format("{}_{}", operation, nodes_added_++);
  Message added;
  for (const Value& input : inputs) added.text(node_input, input);
  std::vector<Value> results;
  for (int i = 0; i < count; ++i) {
    results.push_back(i == 0 ? name : fmt::format("{}_{}", name, i));
    added.text(node_output, results.back());
  }
  added.text(node_name, name).text(op_type, operation);
  for (const Message& each : attributes) added.message(node_attribute, each);
  nodes_ += Message().message(node, added).bytes();
  return results;
}

std::string Graph::skeleton() const {
  return nodes_ + Message().text(graph_name, "model").bytes() + ends_;
}

}  // namespace booster::onnx
