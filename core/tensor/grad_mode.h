// Whether the calling thread records on the tape. The switch is here because in-place changes of
// tensors check it; the tape itself is in core/autograd.
#pragma once

namespace booster {

bool grad_enabled();

// Sets the mode until the scope ends.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct NoGradGuard : GradMode {
  NoGradGuard() : GradMode(false) {}
};

}  // namespace booster
