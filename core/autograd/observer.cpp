#include "core/autograd/observer.h"

namespace booster {

std::atomic<OpObserver*> op_observer = nullptr;

}  // namespace booster
