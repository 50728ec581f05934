// The output folder of a run, locked for this run by the file run.lock in it.
//
// The lock is the system's (flock): it ends with the process, however that ends. The file names its
// holder: host, process and start time. Machines may share a folder but not its locks (some network
// file systems); so a file left by another machine counts as a held lock. For one thread of one
// process per run.
#pragma once

#include <filesystem>

namespace example {

class OutputFolder {
 public:
  // Creates the folder if it is missing. Throws an Error of kind usage that names the other run if
  // one holds the folder; of kind failed if it cannot be written.
  explicit OutputFolder(const std::filesystem::path& path);
  // Releases the folder for other runs.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Returns true if the folder or its lock was removed or replaced during the run.
  bool lost() const;

 private:
  std::filesystem::path lock_;
  int descriptor_ = -1;
};

}  // namespace example
