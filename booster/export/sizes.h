// Sizes that depend on the input's sizes, as values of a graph. A model is traced on inputs of
// several shapes; a number that differs from trace to trace must be computed when the graph runs.
#pragma once

#include "booster/export/onnx_graph.h"
#include "booster/export/trace.h"

#include <map>
#include <optional>
#include <vector>

namespace booster::onnx {

// A number, one for each trace.
using Varying = std::vector<int64_t>;
bool is_constant(const Varying& numbers);

class Sizes {
 public:
  Sizes(Graph& graph, const std::vector<Trace>& traces) : graph_(graph), traces_(traces) {}

  Varying size(int value, int dim) const;
  std::vector<Varying> shape(int value) const;
  // Declares that the graph has this value of the traces. Other sizes may then follow its sizes.
  void know(int value, const Graph::Value& name);
  // Returns a vector of one element. `numbers` are constant or follow known sizes s and t as a s +
  // c, s / c or a s t + c, with whole numbers a and c. Returns null for other numbers.
  std::optional<Graph::Value> find(const Varying& numbers);

 private:
  // A size that the graph can compute.
  struct Source {
    Varying numbers;
    Graph::Value value;  // whose dimension it is
    int dim;
  };
  Graph::Value of(const Source& source);
  std::optional<Graph::Value> computed(const Varying& numbers);
  Graph::Value affine(const Graph::Value& size, int64_t factor, int64_t added);

  Graph& graph_;
  const std::vector<Trace>& traces_;
  std::vector<Source> sources_;
  std::map<Varying, Graph::Value> found_;
};

}  // namespace booster::onnx
