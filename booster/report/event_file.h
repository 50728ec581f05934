// Scalars in the event files that TensorBoard reads:
//   EventFile events("out/run/tensorboard");
//   events.add({{"train/loss", 4.6}, {"train/lr", 5e-4}}, step);
// For one thread.
#pragma once

#include "platform/files/appended_file.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace booster::report {

struct EventScalar {
  std::string tag;   // TensorBoard groups tags by the part before "/"
  double value = 0;  // may be non-finite
};

class EventFile {
 public:
  // Makes the folder and a new file in it, which TensorBoard reads after the files of earlier runs.
  // A resumed run repeats their steps from `first_step` on, so TensorBoard shows only their earlier
  // steps. All errors of this class are of kind failed.
  explicit EventFile(const std::filesystem::path& folder, int64_t first_step = 0);

  // Adds one record, completely or not at all.
  void add(std::span<const EventScalar> scalars, int64_t step);

 private:
  void append(std::string_view event);
  AppendedFile file_;
};

// Returns data as a TensorFlow record (tensorflow/core/lib/io/record_writer): its length, and
// masked CRC-32C of the length and of the data.
std::string framed_record(std::string_view data);
// Returns the CRC with Castagnoli's polynomial (RFC 3720, section 12.1).
uint32_t crc32c(std::string_view data);

}  // namespace booster::report
