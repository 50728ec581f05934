#include "core/nn/documents.h"

#include "core/autograd/functions.h"
#include "core/tensor/token_layout.h"

#include <utility>
#include <vector>

namespace booster {
namespace {

Tensor exchange_documents(Tensor documents) {
  TokenLayout layout = token_layout();
  Tensor before = std::exchange(layout.documents, std::move(documents));
  set_token_layout(layout);
  return before;
}

Tensor starts_of(const Tensor& ids, int64_t end) {
  const std::vector<int64_t> tokens = ids.to(DType::i64).to(Device{}).to_vector<int64_t>();
  const auto length = static_cast<size_t>(ids.size(1));
  std::vector<int64_t> starts(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t at = i % length;
    const bool begins = at > 0 && tokens[i - 1] == end;
    starts[i] = at == 0 ? 0 : begins ? static_cast<int64_t>(at) : starts[i - 1];
  }
  return from_vector(starts, ids.shape()).to(ids.device());
}

}  // namespace

DocumentScope::DocumentScope(const Tensor& ids, std::optional<int64_t> end)
    : is_set_(end.has_value() && ids.defined()) {
  check(
      !end || ids.defined() || current_documents().defined(),
      "document_end: this part of the model does not see token ids, which say where documents end; "
      "want no pipeline, or documents in texts of their own");
  if (is_set_) before_ = exchange_documents(starts_of(ids, *end));
}

DocumentScope::~DocumentScope() {
  if (is_set_) exchange_documents(std::move(before_));
}

Tensor current_documents() { return token_layout().documents; }

Tensor document_positions(const Tensor& documents) {
  const NoGradGuard no_grad;
  const Tensor places = arange(documents.size(1), {DType::i64, documents.device()});
  return sub(unsqueeze(places, 0), documents);
}

}  // namespace booster
