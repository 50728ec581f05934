// Graceful shutdown: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (a closed terminal) make the training save
// and stop after the current step. What arrives within a second counts as one signal, since run
// tools, service managers and terminals may each send theirs; a later one ends the process at once.
#pragma once

namespace example {

// Signals that the process was started to ignore (nohup) stay ignored.
void catch_stop_signals();
// The signal that was caught first, or 0.
int stop_signal();

}  // namespace example
