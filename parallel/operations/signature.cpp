#include "parallel/operations/signature.h"

#include <fmt/core.h>

#include <algorithm>

namespace booster {
namespace {

const char* name_of(Collective operation) {
  constexpr const char* names[] = {"all_reduce", "broadcast",    "all_gather", "reduce_scatter",
                                   "all_to_all", "send/receive", "barrier"};
  return names[std::min<size_t>(static_cast<size_t>(operation), 6)];
}

}  // namespace

std::string Signature::text() const {
  if (operation == Collective::barrier) return fmt::format("barrier (call {})", sequence);
  std::string what = fmt::format("{} of {} {}", name_of(operation), count, booster::name_of(dtype));
  if (operation == Collective::all_reduce || operation == Collective::reduce_scatter)
    what += fmt::format(" by {}", booster::name_of(reduction));
  if (operation == Collective::broadcast) what += fmt::format(" from rank {}", root);
  const std::string subject = tag.text();
  return what + fmt::format(" (call {}{}{})", sequence, subject.empty() ? "" : ", ", subject);
}

}  // namespace booster
