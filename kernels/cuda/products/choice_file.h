// ChoiceFile: the algorithm chosen for each product, kept from one process to the next. A text
// file:
//
//   booster: algorithms of matrix products, 1
//   NVIDIA H100 80GB HBM3, capability 9.0, ...     the subject: what the choices hold for
//   3 0 T 768 768 768 0 256 ...                    an algorithm's number, and the product
//   end 8d1f4c60a1b2c3d4                           FNV-1a of all that comes before
//
// It is always replaced as a whole (written to a temporary file, fsynced, renamed), so that readers
// never see a partial file. For one thread; several processes may use the same file.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace booster::kernels::cuda {

class ChoiceFile {
 public:
  using Choices = std::map<std::string, int>;

  ChoiceFile(std::string path, std::string subject);

  // Reads the file. Returns nothing if it does not exist (`absent`), or if it is damaged or has
  // another subject; `why` then holds the reason.
  static constexpr const char* absent = "there is no such file";
  std::optional<Choices> read(std::string& why) const;
  // Adds the choice, creating folders and file. Returns the valid choice: an earlier process's, if
  // there is one. If the file cannot be written, warns once and returns the given choice.
  int add(const std::string& product, int choice);

  const std::string& path() const { return path_; }

 private:
  bool write(const Choices& choices) const;

  std::string path_, subject_;
  bool is_told_ = false;
};

}  // namespace booster::kernels::cuda
