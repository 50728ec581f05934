// Graceful shutdown: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (a closed terminal) make the training save
// and stop after the current step. Signals within a second count as one, since run tools, service
// managers and terminals may each send their own. A later one ends the process at once.
#pragma once

namespace example {

// Signals that the process was started to ignore (nohup) stay ignored.
void catch_stop_signals();
// Returns the first signal caught, or 0.
int stop_signal();

}  // namespace example
