// The folder that a run writes to, held for this run alone by the file run.lock in it.
//
// The lock is the system's (flock): it ends with the process, however that ends. The file says who
// holds it: host, process and start. Where machines share a folder but not its locks (some network
// file systems), that is all there is, so a file that another machine left is believed. One thread;
// one process of a run has it.
#pragma once

#include <filesystem>

namespace example {

class OutputFolder {
 public:
  // Creates the folder if it is missing. Error of kind usage if another run has it, which it names;
  // of kind failed if it cannot be written.
  explicit OutputFolder(const std::filesystem::path& path);
  // Another run may have it.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // It, or its lock, was removed or replaced while the run had it.
  bool lost() const;

 private:
  std::filesystem::path lock_;
  int descriptor_ = -1;
};

}  // namespace example
