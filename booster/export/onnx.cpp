#include "booster/config/pretrained.h"

#include "booster/export/onnx_file.h"
#include "booster/export/trace.h"
#include "booster/export/translator.h"
#include "core/nn/evaluation.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/random/random.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace booster {

namespace {

using onnx::Graph;
using onnx::Trace;
using onnx::Varying;

constexpr const char* input_name = "input";
constexpr const char* output_name = "logits";

// Makes inputs of any shape, each with different values.
class Inputs {
 public:
  Inputs(const Model& model, const Tensor& like, int64_t indices) : indices_(indices), like_(like) {
    if (indices > 0) return;
    const Tensor example = model->example_input(1);
    if (example.defined() && !is_floating(example.dtype())) indices_ = 1;
  }
  bool are_indices() const { return indices_ > 0; }

  Tensor of(const std::vector<int64_t>& sizes) {
    if (!are_indices())
      return cast(normal(Shape(sizes), 0, 1, {}, generator_).to(like_.device()), like_.dtype());
    std::vector<int64_t> values(static_cast<size_t>(Shape(sizes).numel()));
    for (int64_t& value : values) value = (next_ += 7919) % indices_;
    return from_vector(values, Shape(sizes)).to(like_.device());
  }

 private:
  int64_t indices_;
  int64_t next_ = 0;
  Tensor like_;
  Generator generator_{1};
};

using OtherSizes = std::array<int64_t, 2>;

// A dimension of the input after the batch.
struct Dimension {
  int64_t size;                           // the sample's
  std::optional<OtherSizes> others = {};  // other sizes, if the model accepts any
};
using Dimensions = std::vector<Dimension>;

Dimensions fixed(const Shape& sample) {
  Dimensions dimensions;
  for (const int64_t size : sample) dimensions.push_back({size});
  return dimensions;
}

constexpr int trace_count = 3;

// Returns the input's shape in a trace. Trace 0 has the sample's sizes. No batch has one row,
// because its size 1 could not be told from other sizes of 1.
std::vector<int64_t> shape_in(int trace, const Dimensions& dimensions) {
  constexpr int64_t batches[trace_count] = {2, 3, 5};
  std::vector<int64_t> shape = {batches[trace]};
  for (const Dimension& each : dimensions)
    shape.push_back(trace > 0 && each.others ? (*each.others)[static_cast<size_t>(trace - 1)]
                                             : each.size);
  return shape;
}

bool takes(const Model& model, const Tensor& input) {
  try {
    const NoGradGuard no_grad;
    model(input);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool takes_sizes(const Model& model, const Shape& sample, size_t place, const OtherSizes& others,
                 Inputs& inputs) {
  if (others[0] < 1 || others[1] < 1) return false;
  Dimensions changed = fixed(sample);
  changed[place].others = others;
  return takes(model, inputs.of(shape_in(1, changed))) &&
         takes(model, inputs.of(shape_in(2, changed)));
}

// Finds for each dimension whether the model accepts other sizes: larger ones, or else smaller
// ones.
Dimensions dimensions_of(const Model& model, const Shape& sample, Inputs& inputs) {
  Dimensions dimensions = fixed(sample);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const int64_t size = dimensions[i].size, place = static_cast<int64_t>(i);
    const OtherSizes larger = {size + 7 + 4 * place, 2 * size + 5 + 2 * place},
                     smaller = {size - 1 - place, size / 2};
    if (takes_sizes(model, sample, i, larger, inputs))
      dimensions[i].others = larger;
    else if (takes_sizes(model, sample, i, smaller, inputs))
      dimensions[i].others = smaller;
  }
  return dimensions;
}

std::vector<Trace> traces_of(const Model& model, const Dimensions& dimensions, Inputs& inputs) {
  std::vector<Trace> traces;
  for (int trace = 0; trace < trace_count; ++trace)
    traces.push_back(onnx::trace_of(model, inputs.of(shape_in(trace, dimensions))));
  return traces;
}

std::string name_of_dimension(size_t i, size_t count, bool are_indices) {
  constexpr const char* of_images[] = {"channels", "height", "width"};
  if (count == 3) return of_images[i];
  if (count == 1 && are_indices) return "tokens";
  return fmt::format("size_{}", i + 1);
}

// Returns a size as a number, as the name of an equal size of the input, or as a new name.
std::string written(const Varying& size, const std::map<Varying, std::string>& names, int dim) {
  if (onnx::is_constant(size)) return std::to_string(size[0]);
  const auto name = names.find(size);
  return name == names.end() ? fmt::format("{}_{}", output_name, dim) : name->second;
}

Graph graph_of(const std::vector<Trace>& traces, bool are_indices) {
  Graph graph;
  onnx::Sizes sizes(graph, traces);
  const std::vector<Varying> in = sizes.shape(traces[0].input), out = sizes.shape(traces[0].output);
  std::map<Varying, std::string> names = {{in[0], "batch"}};
  for (size_t i = 1; i < in.size(); ++i)
    names.emplace(in[i], name_of_dimension(i - 1, in.size() - 1, are_indices));
  const auto dimensions = [&](const std::vector<Varying>& shape) {
    Graph::Dimensions all;
    for (size_t i = 0; i < shape.size(); ++i)
      all.push_back(written(shape[i], names, static_cast<int>(i)));
    return all;
  };
  const auto kind = [&](int value) { return onnx::kind_of(traces[0].values[value].dtype); };
  const Graph::Value input = graph.input(input_name, kind(traces[0].input), dimensions(in));
  const Graph::Value output = onnx::Translator(graph, traces, input).translate();
  graph.output(output, output_name, kind(traces[0].output), dimensions(out));
  return graph;
}

// Traces the model with as many free dimensions as the graph can follow: all that the model
// accepts, or only the batch.
Graph traced_graph(const Model& model, const Shape& sample, Inputs& inputs) {
  const Dimensions dimensions = dimensions_of(model, sample, inputs);
  const auto is_free = [](const Dimension& dimension) { return dimension.others.has_value(); };
  if (std::ranges::any_of(dimensions, is_free)) {
    try {
      return graph_of(traces_of(model, dimensions, inputs), inputs.are_indices());
    } catch (const Error&) {
      // Some size cannot be followed, so try only the batch.
    }
  }
  return graph_of(traces_of(model, fixed(sample), inputs), inputs.are_indices());
}

// Returns the first floating tensor of the model, whose dtype and device its input has.
Tensor first_weight(const Model& model) {
  for (const auto& [name, tensor] : model.state_dict()) {
    check(name != input_name && name != output_name,
          "onnx: a weight has the name of the graph's input or output; got {}", name);
    if (is_floating(tensor.dtype())) return tensor;
  }
  fail("onnx: a model without weights");
}

}  // namespace

void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options) {
  check(options.indices >= 0, "onnx: indices: got {}, want 0 or the number of values",
        options.indices);
  const Tensors examples = model->example_inputs(1);
  if (examples.size() > 1)
    fail("onnx: a {} takes several tensors; got {}, want a model of one input and one output",
         model->kind(), examples.names());
  const Tensor like = first_weight(model);
  const Evaluation evaluation(model.module());
  Inputs inputs(model, like, options.indices);
  {
    const NoGradGuard no_grad;  // the model's error describes the wrong sample
    const Tensors y = model(Tensors(inputs.of(shape_in(0, fixed(sample)))));
    if (y.size() != 1)
      fail("onnx: a {} gives several tensors; got {}, want a model of one input and one output",
           model->kind(), y.names());
  }
  const Graph graph = traced_graph(model, sample, inputs);
  std::vector<std::pair<std::string, std::string>> metadata;
  if (!options.classes.empty())
    metadata.emplace_back("classes",
                          nlohmann::json(options.classes)
                              .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  onnx::write_onnx(file, graph, metadata);
}

}  // namespace booster
