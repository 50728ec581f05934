#include "booster/export/onnx_file.h"

#include "platform/files/atomic_file.h"
#include "platform/files/file.h"

#include <string_view>

namespace booster::onnx {

namespace {

using protobuf::Message;

// Field numbers in onnx/onnx.proto.
enum ModelField {
  model_ir_version = 1,
  producer_name = 2,
  model_graph = 7,
  opset_import = 8,
  metadata_props = 14
};
enum GraphTensorField { initializer = 5 };
enum TensorField { dims = 1, data_type = 2, tensor_name = 8, raw_data = 9 };
enum OperatorSetField { set_version = 2 };
enum EntryField { entry_key = 1, entry_value = 2 };
constexpr uint64_t most_bytes = uint64_t{1} << 31;

DType written_dtype(const Tensor& tensor) {
  switch (kind_of(tensor.dtype())) {
    case Kind::floating: return DType::f32;
    case Kind::integer: return DType::i64;
    case Kind::truth: break;
  }
  return DType::boolean;
}

uint64_t data_bytes(const Tensor& tensor) {
  return static_cast<uint64_t>(tensor.numel() * size_of(written_dtype(tensor)));
}

// Returns the GraphProto field of the weight up to its values, which come last.
std::string before_numbers(const Graph::Weight& weight) {
  Message tensor;
  for (const int64_t size : weight.tensor.shape()) tensor.integer(dims, size);
  tensor.integer(data_type, element_type(kind_of(weight.tensor.dtype())));
  std::string fields = tensor.text(tensor_name, weight.name).bytes();
  const uint64_t numbers = data_bytes(weight.tensor);
  protobuf::append_header(fields, raw_data, numbers);
  std::string whole;
  protobuf::append_header(whole, initializer, fields.size() + numbers);
  return whole + fields;
}

void write_numbers(FileWriter& file, const Tensor& tensor) {
  const Tensor here = tensor.detach().to(Device{});
  const Tensor numbers = untracked::contiguous(untracked::cast(here, written_dtype(here)));
  file.write(numbers.data(), data_bytes(tensor));
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const Graph& graph,
                const std::vector<std::pair<std::string, std::string>>& metadata) {
  const std::string skeleton = graph.skeleton();
  uint64_t graph_bytes = skeleton.size();
  for (const Graph::Weight& weight : graph.weights())
    graph_bytes += before_numbers(weight).size() + data_bytes(weight.tensor);
  check(graph_bytes < most_bytes, "onnx: the file is too large; got {} MiB, want less than 2048",
        graph_bytes >> 20);
  Message head;
  head.integer(model_ir_version, ir_version).text(producer_name, "booster");
  head.message(opset_import, Message().integer(set_version, operator_set));
  for (const auto& [key, value] : metadata)
    head.message(metadata_props, Message().text(entry_key, key).text(entry_value, value));
  std::string begin = head.bytes();
  protobuf::append_header(begin, model_graph, graph_bytes);
  AtomicFile file(path);
  file.writer().write(begin + skeleton);
  for (const Graph::Weight& weight : graph.weights()) {
    file.writer().write(before_numbers(weight));
    write_numbers(file.writer(), weight.tensor);
  }
  file.commit();
}

}  // namespace booster::onnx
