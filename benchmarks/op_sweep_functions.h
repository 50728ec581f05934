// The functions that op_sweep times, and their arguments.
#pragma once

#include "booster/booster.h"

#include <functional>
#include <string>
#include <vector>

namespace booster::benchmarks {

// Arguments of one row. All are views with the row's memory order.
struct SweepInput {
  Tensor x, positive;     // normal numbers, and numbers from 0.1 to 2
  Tensor y;               // another x; one row of it if the order is "broadcast"
  Tensor mask, index;     // bool, and i64 below the size of dimension `dim`
  Tensor matrix, vector;  // (last dimension, 128) and (last dimension), contiguous
  Tensor weight;          // (last dimension), f32 for parameters of normalisations
  int64_t dim = 0;        // the dimension of functions along one
};

// What the orders of a function mean: see `orders` in op_sweep.cpp.
enum class SweepKind { elementwise, pair, along, other };

struct SweepFunction {
  std::string name;
  SweepKind kind;
  bool takes_integers;
  std::function<void(const SweepInput&)> run;
};

// Returns all functions. Their names are keys of FUNCTIONS in peers/op_sweep.py.
std::vector<SweepFunction> sweep_functions();
// Returns functions of images (8, 32, 28, 28), whose orders are "contiguous" and "channels_last".
std::vector<SweepFunction> sweep_image_functions();

}  // namespace booster::benchmarks
