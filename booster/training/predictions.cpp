// Metrics of all samples of an evaluation together, gathered from the ranks.
#include "booster/training/boosted.h"
#include "booster/training/counted_rows.h"
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace booster {
namespace {

// Ranks of one evaluation must have rows of one form. A rank without samples has none.
struct RowForm {
  DType dtype = DType::f32;
  Shape shape = {};  // of a row
};

std::string form_text(const Tensor& rows) {
  std::string text = std::to_string(static_cast<int>(rows.dtype()));
  for (int i = 1; i < rows.ndim(); ++i) text += " " + std::to_string(rows.size(i));
  return text;
}

RowForm common_form(const std::vector<std::string>& texts) {
  const auto some = std::ranges::find_if(texts, [](const auto& text) { return !text.empty(); });
  check(some != texts.end(),
        "Predictions: no rank has a sample; want add() in a loop over the loader");
  for (const std::string& text : texts)
    check(text.empty() || text == *some,
          "Predictions: ranks have rows of different dtypes or shapes");
  std::istringstream numbers(*some);
  int dtype = 0;
  numbers >> dtype;
  RowForm form{static_cast<DType>(dtype), {}};
  for (int64_t size = 0; numbers >> size;) form.shape.push_back(size);
  return form;
}

Tensor with_rows(int64_t rows, const RowForm& form) {
  Shape shape = form.shape;
  shape.insert(0, rows);
  return zeros(shape, {.dtype = form.dtype});
}

// Returns the positions, among the ranks' rows one after another in `longest` each, in the order of
// one process: sample i of a share is before sample i + 1 of any.
Tensor common_order(const std::vector<int64_t>& counts, int64_t longest) {
  std::vector<int64_t> places;
  for (int64_t row = 0; row < longest; ++row)
    for (size_t rank = 0; rank < counts.size(); ++rank)
      if (row < counts[rank]) places.push_back(static_cast<int64_t>(rank) * longest + row);
  return from_vector(places, {static_cast<int64_t>(places.size())});
}

void check_labels(const char* call, const Tensor& a, const Tensor& b, const char* wanted) {
  check(a.defined() && b.defined() && a.ndim() == 1 && a.shape() == b.shape(),
        "{}: wrong shapes; got {} and {}, want {}", call, a.defined() ? a.shape() : Shape{},
        b.defined() ? b.shape() : Shape{}, wanted);
}

}  // namespace

void Predictions::add(const Tensor& rows) {
  check(rows.defined() && rows.ndim() >= 1,
        "Predictions: wrong shape; got {}, want (n, ...): a row for each sample",
        rows.defined() ? rows.shape().to_string() : "an undefined tensor");
  const int64_t n = counted_rows("Predictions", loader_, rows.size(0));
  const Tensor own = untracked::clone(untracked::narrow(rows.detach(), 0, 0, n));
  if (!rows_.empty() && form_text(own) != form_text(rows_[0]))
    fail("Predictions: rows of another dtype or shape; got {} {}, want {} {} but for their number",
         name_of(own.dtype()), own.shape(), name_of(rows_[0].dtype()), rows_[0].shape());
  rows_.push_back(own);
}

Tensor Predictions::all(const Group& group) const {
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  const Tensor own = rows_.empty() ? Tensor() : cat(rows_, 0).to(Device());
  const RowForm form = common_form(gather_text(own.defined() ? form_text(own) : "", group));
  std::vector<int64_t> count = {own.defined() ? own.size(0) : 0};
  std::vector<int64_t> counts(static_cast<size_t>(group.size()));
  group.all_gather(counts, count);
  const int64_t longest = *std::ranges::max_element(counts);
  const Tensor here = with_rows(longest, form);
  if (own.defined()) untracked::narrow(here, 0, 0, own.size(0)).copy_(own);
  const Tensor gathered = with_rows(longest * group.size(), form);
  group.all_gather(gathered, here);
  return index_select(gathered, 0, common_order(counts, longest));
}

Tensor confusion_matrix(const Tensor& predicted, const Tensor& labels, int64_t classes) {
  check_labels("confusion_matrix", predicted, labels, "(n) and (n)");
  check(classes >= 1, "confusion_matrix: classes; got {}, want 1 or more", classes);
  const auto guesses = predicted.to_vector<int64_t>(), truth = labels.to_vector<int64_t>();
  std::vector<int64_t> counts(static_cast<size_t>(classes * classes));
  for (size_t i = 0; i < guesses.size(); ++i) {
    for (const int64_t one : {guesses[i], truth[i]})
      check(one >= 0 && one < classes, "confusion_matrix: no such class; got {}, want 0 to {}", one,
            classes - 1);
    ++counts[static_cast<size_t>(truth[i] * classes + guesses[i])];
  }
  return from_vector(counts, {classes, classes});
}

Tensor f1_scores(const Tensor& confusion) {
  check(confusion.defined() && confusion.ndim() == 2 && confusion.size(0) == confusion.size(1),
        "f1_scores: wrong shape; got {}, want (classes, classes) of confusion_matrix",
        confusion.defined() ? confusion.shape() : Shape{});
  const int64_t classes = confusion.size(0);
  const auto counts = confusion.to_vector<double>();
  std::vector<double> scores;
  for (int64_t i = 0; i < classes; ++i) {
    double all = 0;
    for (int64_t j = 0; j < classes; ++j)
      all += counts[static_cast<size_t>(i * classes + j)] +
             counts[static_cast<size_t>(j * classes + i)];
    scores.push_back(all == 0 ? 0 : 2 * counts[static_cast<size_t>(i * classes + i)] / all);
  }
  return from_vector(scores, {classes});
}

// By ranks (Mann and Whitney, 1947): positions in sorted order, equal scores share their mean.
double roc_auc(const Tensor& scores, const Tensor& labels) {
  check_labels("roc_auc", scores, labels, "scores (n) and labels (n)");
  const auto score = scores.to_vector<double>(), label = labels.to_vector<double>();
  std::vector<size_t> order(score.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    check(score[i] == score[i], "roc_auc: the score of sample {} is nan", i);
    check(label[i] == 0 || label[i] == 1, "roc_auc: label of sample {}; got {}, want 0 or 1", i,
          label[i]);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return score[i]; });
  double positives = 0, places = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double here = 0;
    for (; end < order.size() && score[order[end]] == score[order[begin]]; ++end)
      here += label[order[end]];
    positives += here;
    places += here * (static_cast<double>(begin + end) + 1) / 2;
  }
  const double negatives = static_cast<double>(score.size()) - positives;
  check(positives > 0 && negatives > 0, "roc_auc: want both labels; got {} of 1 and {} of 0",
        positives, negatives);
  return (places - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace booster
