// Scalars in the event files that TensorBoard reads:
//   EventFile events("out/run/tensorboard");
//   events.add({{"train/loss", 4.6}, {"train/lr", 5e-4}}, step);
// One thread.
#pragma once

#include "platform/files/appended_file.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace booster::report {

struct EventScalar {
  std::string tag;   // TensorBoard groups by what stands before "/"
  double value = 0;  // also one that is not finite
};

class EventFile {
 public:
  // Makes the folder, and in it a new file, which TensorBoard reads after those of earlier runs: of
  // these it shows steps before `first_step` only, since a resumed run tells the others again.
  // Errors, here and below, are of kind failed.
  explicit EventFile(const std::filesystem::path& folder, int64_t first_step = 0);

  // One record: all of it or nothing.
  void add(std::span<const EventScalar> scalars, int64_t step);

 private:
  void append(std::string_view event);
  AppendedFile file_;
};

// Data as a record of TensorFlow's (tensorflow/core/lib/io/record_writer): its length, and masked
// CRC-32C of the length and of the data.
std::string framed_record(std::string_view data);
// CRC with the polynomial of Castagnoli (RFC 3720, section 12.1).
uint32_t crc32c(std::string_view data);

}  // namespace booster::report
