// Folders of classes: their location and the names of their classes.
//
// Folder names are bytes. A class name is the folder name in which everything that is invalid UTF-8
// or controls a terminal is written out ("caf\xe9"). It is the same in checkpoints, files and
// console output.
#pragma once

#include <string>
#include <vector>

namespace example {

bool holds(const std::vector<std::string>& names, const std::string& name);

// Returns the class names of these folders. Throws an Error of kind data if two names coincide.
std::vector<std::string> class_names(const std::vector<std::string>& folders);
// The inverse for the folders in `root`; a class without a folder there keeps its name.
std::vector<std::string> class_folders(const std::vector<std::string>& classes,
                                       const std::string& root);

// If `root` is an archive with a single folder, returns that folder; else `root`. A folder with a
// `wanted` name does not count as such.
std::string within_archive(const std::string& root, const std::vector<std::string>& wanted);

}  // namespace example
