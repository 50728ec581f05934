// Writes the flight record of a rank that SIGTERM ends. The run tool sends SIGTERM when another
// rank has failed. A user may send it after a long wait.
#pragma once

namespace booster {

// Makes SIGTERM write this process's flight record (parallel/groups/flight_recorder.h) before it
// ends the process as usual. Does nothing if BOOSTER_FLIGHT_RECORD is not set, if the program
// handles or ignores SIGTERM itself, or on any thread but the first. A handler that the program
// sets later replaces this one. Later calls do nothing.
void record_at_sigterm(int rank, int size);

}  // namespace booster
