// Clears away what killed runs have left in a folder for temporary files. Thread-safe.
#pragma once

#include <string>

namespace booster {

// Removes the folders `parent`/`prefix`* in which ranks or a run tool have met and of which no
// living process holds a place (parallel/rendezvous/place.h): private folders of this user, with
// nothing else in them. To be called before this process takes a place in one of them: its own
// do not count as held.
void remove_dead_places(const std::string& parent, const std::string& prefix);

}  // namespace booster
