// Folders of classes: where they are, and what their classes are called.
//
// Names of folders are bytes. Classes are called by them with all that is not UTF-8, or steers a
// terminal, written out ("caf\xe9"), alike in checkpoints, in files for people and on the screen.
#pragma once

#include <string>
#include <vector>

namespace example {

bool holds(const std::vector<std::string>& names, const std::string& name);

// The names of classes of these folders. Error of kind data if two are written alike.
std::vector<std::string> class_names(const std::vector<std::string>& folders);
// The other way round for the folders in `root`; a class that has none there keeps its name.
std::vector<std::string> class_folders(const std::vector<std::string>& classes,
                                       const std::string& root);

// An archive that was made of a folder holds that folder alone, which this is then; else `root`.
// One whose folder has a `wanted` name is not.
std::string within_archive(const std::string& root, const std::vector<std::string>& wanted);

}  // namespace example
