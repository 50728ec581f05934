#include "tools/plan/model_cost.h"

namespace booster::plan {

namespace {

template <class Combine>
Works combined(Works a, const Works& b, Combine combine) {
  for (const auto& [kind, work] : b) {
    Work& sum = a[kind];
    sum = {combine(sum.gflop, work.gflop), combine(sum.gbytes, work.gbytes),
           combine(sum.calls, work.calls), combine(sum.seconds, work.seconds)};
  }
  return a;
}

}  // namespace

Works operator*(Works works, double times) {
  works = grown(std::move(works), times);
  for (auto& [kind, work] : works) work.calls *= times;
  return works;
}

Works grown(Works works, double factor) {
  for (auto& [kind, work] : works)
    work = {work.gflop * factor, work.gbytes * factor, work.calls, work.seconds * factor};
  return works;
}

Works operator+(Works a, const Works& b) {
  return combined(std::move(a), b, [](double x, double y) { return x + y; });
}

Works operator-(const Works& a, const Works& b) {
  return combined(a, b, [](double x, double y) { return x - y; });
}

}  // namespace booster::plan
