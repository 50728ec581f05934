// Texts that are packed of several documents, one after another: attention does not cross from one
// to the next, and positions count from each one's first token.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>
#include <optional>

namespace booster {

// Tells modules on this thread where documents begin, while it lives; parts of a pass that run
// again see it too. Not across the stages of a pipeline, of which only the first has token ids.
class DocumentScope {
 public:
  // Each token `end` of ids (n, tokens) ends a document, to which it belongs. Without `end`, texts
  // are single documents. Throws if there is an `end` but no ids. Waits for a GPU.
  DocumentScope(const Tensor& ids, std::optional<int64_t> end);
  ~DocumentScope();
  DocumentScope(const DocumentScope&) = delete;
  DocumentScope& operator=(const DocumentScope&) = delete;

 private:
  bool is_set_;
  Tensor before_;
};

// Returns the place of the first token of each token's document, (n, tokens) i64. Undefined where
// texts are single documents. AttentionOptions::documents takes it.
Tensor current_documents();
// Returns the position of each token within its document, (n, tokens) i64.
Tensor document_positions(const Tensor& documents);

}  // namespace booster
