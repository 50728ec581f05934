#include "parallel/groups/signature.h"

#include "kernels/system/error.h"

#include <algorithm>

namespace booster {

namespace {

const char* name_of(Operation operation) {
  constexpr const char* names[] = {"all_reduce", "broadcast",    "all_gather", "reduce_scatter",
                                   "all_to_all", "send/receive", "barrier"};
  return names[std::min<size_t>(static_cast<size_t>(operation), 6)];
}

}  // namespace

std::string Signature::text() const {
  if (operation == Operation::barrier) return fmt::format("barrier (call {})", sequence);
  std::string what =
      fmt::format("{} of {} {}", name_of(operation), count, booster::name_of(dtype));
  if (operation == Operation::all_reduce || operation == Operation::reduce_scatter)
    what += fmt::format(" by {}", booster::name_of(reduction));
  if (operation == Operation::broadcast) what += fmt::format(" from rank {}", root);
  return what + fmt::format(" (call {})", sequence);
}

}  // namespace booster
