// Removes what killed runs have left in a folder for temporary files. Thread-safe.
#pragma once

#include <string>

namespace booster {

// Removes the folders `parent`/`prefix`* of past runs, in which no living process holds a place
// (parallel/rendezvous/place.h). It removes only private folders of this user that hold nothing
// else. Call it before this process takes a place there, because its own places do not count as
// held.
void remove_dead_places(const std::string& parent, const std::string& prefix);

}  // namespace booster
