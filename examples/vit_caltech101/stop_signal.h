// Graceful shutdown: SIGTERM and SIGINT make the training save and stop after the current step; a
// second signal ends the process immediately.
#pragma once

namespace example {

void catch_stop_signals();
// The signal that was caught, or 0.
int stop_signal();

}  // namespace example
