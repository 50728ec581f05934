// The backend of a group of one rank: nothing ever has to move.
#include "parallel/groups/backend.h"

namespace booster {

namespace {

class LocalBackend final : public Backend {
 public:
  using Backend::Backend;
  const char* name() const override { return "local"; }
  void stop() override {}

 protected:
  void exchange(std::span<const Outgoing>, std::span<const Incoming>) override {}
};

}  // namespace

std::unique_ptr<Backend> make_local(Membership members) {
  return std::make_unique<LocalBackend>(std::move(members));
}

}  // namespace booster
