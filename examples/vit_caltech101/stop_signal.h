// A polite end: SIGTERM and SIGINT ask the training to save and stop after the current step; a
// second one ends the process at once.
#pragma once

namespace example {

void catch_stop_signals();
// The signal that was caught, or 0.
int stop_signal();

}  // namespace example
