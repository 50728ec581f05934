#include "examples/vit_caltech101/report/worst_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace example {

using namespace booster;
using report::WorstImage;

namespace {

void keep_largest(std::vector<WorstImage>& images, size_t most) {
  const auto size = [](const WorstImage& image) {
    return std::isnan(image.loss) ? std::numeric_limits<double>::infinity() : image.loss;
  };
  std::ranges::stable_sort(images, [&](const WorstImage& a, const WorstImage& b) {
    return size(a) > size(b) || (size(a) == size(b) && a.index < b.index);
  });
  images.resize(std::min(images.size(), most));
}

// Which image of the data set a rank's rows are.
std::vector<int64_t> indices_of_rows(const DataLoader& loader, int64_t rows) {
  std::set<int64_t> bad;
  for (const BadImage& image : loader.bad_images()) bad.insert(image.index);
  std::vector<int64_t> indices;
  const DataLoaderOptions& options = loader.options();
  for (int64_t i = options.rank; static_cast<int64_t>(indices.size()) < rows;
       i += options.world_size)
    if (!bad.contains(i)) indices.push_back(i);
  return indices;
}

}  // namespace

void WorstRows::see(std::span<const float> logits, int64_t label) {
  const auto best = std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - double{*best});
  const double loss = std::log(sum) + double{*best} - double{logits[static_cast<size_t>(label)]};
  worst_.push_back({rows_++, loss, best - logits.begin(), 1 / sum});
  if (worst_.size() >= 4 * most) keep_largest(worst_, most);
}

std::vector<WorstImage> WorstRows::joined(const Group& group, const DataLoader& loader) const {
  const auto indices = indices_of_rows(loader, rows_);
  nlohmann::json mine = nlohmann::json::array();
  for (const WorstImage& row : worst_)
    mine.push_back(
        {indices[static_cast<size_t>(row.index)], row.loss, row.predicted, row.probability});
  std::vector<WorstImage> all;
  for (const std::string& text : gather_text(mine.dump(), group))
    for (const auto& row : report::json_of(text)) {
      const auto value = [&](size_t i) {  // null: not finite
        return row[i].is_null() ? std::numeric_limits<double>::quiet_NaN() : row[i].get<double>();
      };
      all.push_back({row[0].get<int64_t>(), value(1), row[2].get<int64_t>(), value(3)});
    }
  keep_largest(all, most);
  return all;
}

}  // namespace example
