// The flight record of a rank that SIGTERM ends: from the run tool when another rank has failed, or
// from a user who has waited long enough.
#pragma once

namespace booster {

// From now on SIGTERM writes this process's flight record (parallel/groups/flight_recorder.h)
// before it ends the process as ever. Does nothing if BOOSTER_FLIGHT_RECORD names no folder, if the
// program handles or ignores that signal itself, or on another thread than the first. A handler
// that the program sets later takes the place of this one. Later calls do nothing.
void record_at_sigterm(int rank, int size);

}  // namespace booster
