#include "plugins/pipeline/microbatches.h"

#include "platform/error.h"

#include <algorithm>

namespace booster {

std::vector<int64_t> cut_batch(int64_t rows, const MicrobatchRule& rule) {
  check(rows >= 1, "pipeline: a batch has no rows");
  const int64_t multiple = rule.multiple_of;
  int64_t count = rule.count > 0 ? rule.count : (rows + rule.size - 1) / rule.size;
  count = (count + multiple - 1) / multiple * multiple;
  if (count > rows) count = rows >= multiple ? rows / multiple * multiple : rows;
  std::vector<int64_t> begins;
  for (int64_t i = 0; i <= count; ++i) begins.push_back(rows * i / count);
  return begins;
}

}  // namespace booster
