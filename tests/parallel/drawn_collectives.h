// Random collectives, the same on all ranks, and a plain model of their results.
#pragma once

#include "parallel/groups/group.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

enum class DrawnKind {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  ring,     // every rank sends to the rank `a` further on
  message,  // from rank `a` to rank `b`
  barrier
};

struct DrawnCollective {
  int call = 0;
  DrawnKind kind = DrawnKind::barrier;
  booster::DType dtype = booster::DType::f32;
  booster::CollectiveOp reduction = booster::CollectiveOp::sum;
  int a = 0, b = 0;  // a is the root of a broadcast
  int64_t count = 0;

  std::string text() const;
  // The number of elements that a rank gives, and receives.
  int64_t given(int size) const;
  int64_t got(int size) const;
  bool takes_part(int rank) const;
  bool gives(int rank) const;
  bool gets(int rank) const;
  // Returns element `i` of a rank's input: small integers, so that sums are exact.
  double number(int rank, int64_t i) const;
  // Returns a rank's final result.
  std::vector<double> wanted(int rank, int size) const;
  booster::Work issue(const booster::Group& group, const booster::Buffer& out,
                      const booster::Buffer& in) const;
};

DrawnCollective draw_collective(std::mt19937& random, int call, int size);
