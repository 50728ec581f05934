// Removes what killed runs have left in a folder for temporary files. Thread-safe.
#pragma once

#include <string>

namespace booster {

// Removes folders `parent`/`prefix`* where ranks or a run tool have met and no living process holds
// a place (parallel/rendezvous/place.h). It removes only private folders of this user with nothing
// else in them. Call it before this process takes a place in one of them: its own places do not
// count as held.
void remove_dead_places(const std::string& parent, const std::string& prefix);

}  // namespace booster
