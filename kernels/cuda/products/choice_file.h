// ChoiceFile: which algorithm was chosen for each product, from one process to the next. A text
// file:
//
//   booster: algorithms of matrix products, 1
//   NVIDIA H100 80GB HBM3, capability 9.0, ...     the subject: what the choices hold for
//   3 0 T 768 768 768 0 256 ...                    an algorithm's number, and the product
//   end 8d1f4c60a1b2c3d4                           FNV-1a of all that comes before
//
// It is replaced as a whole (written beside, fsynced, renamed), so that it is never found half
// written. For one thread; processes may use the same file at once.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace booster::kernels::cuda {

class ChoiceFile {
 public:
  using Choices = std::map<std::string, int>;

  ChoiceFile(std::string path, std::string subject);

  // Nothing if there is no such file (`absent`), or if it is damaged or of another subject; `why`
  // then says so.
  static constexpr const char* absent = "there is no such file";
  std::optional<Choices> read(std::string& why) const;
  // Adds the choice, creating folders and file, and gives the one that counts: that of a process
  // that was first. Where the file cannot be written, it is told once and the choice counts here.
  int add(const std::string& product, int choice);

  const std::string& path() const { return path_; }

 private:
  bool write(const Choices& choices) const;

  std::string path_, subject_;
  bool is_told_ = false;
};

}  // namespace booster::kernels::cuda
