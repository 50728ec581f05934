// Which keys the queries of attention see.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels {

struct VisibleKeys {
  VisibleKeys(bool causal_, View first_ = {}) : causal(causal_), first(first_) {}

  bool causal;  // query i sees keys 0 ... i
  // Of these, the first key that it sees: (batch, queries) i64, any strides; or absent. For CPUs
  // only.
  View first;
};

}  // namespace booster::kernels
