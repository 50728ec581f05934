// Parts of safetensors files, for code that reads and writes them tensor by tensor. Reading is safe
// for any input; see safetensors.h. Functions share no state; several threads may read one
// SafetensorsFile.
#pragma once

#include "booster/checkpoint/safetensors/safetensors.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace booster {

// A dtype of the format; `dtype` is our equivalent, if there is one.
struct StoredDType {
  const char* name;
  int bits;
  std::optional<DType> dtype;
};
const StoredDType& stored_dtype(DType dtype);

struct StoredTensor {
  std::string name;
  const StoredDType* dtype = nullptr;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // in bytes after the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset
  Metadata metadata;
};
// Parses the JSON text of a header that is followed by `data_bytes` bytes of data, and checks every
// rule. `file` names the file in errors.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& file);

inline constexpr uint64_t max_safetensors_header = 100'000'000;
// Our own limits, in addition to the reference's limit on the header: a file of many small tensors
// would take ten times its size in memory.
inline constexpr size_t max_safetensors_tensors = 1'000'000, max_safetensors_metadata = 10'000;
// Longest name or metadata text, in bytes.
inline constexpr size_t max_safetensors_text = 4'000'000;

class SafetensorsFile {
 public:
  // Adds every byte read, from the first one on, to `hash`; after load_all() the hash covers the
  // file.
  explicit SafetensorsFile(const std::filesystem::path& path, Sha256* hash = nullptr);

  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // Reads the tensor; throws if we do not support its dtype or its number of dimensions.
  Tensor load(const StoredTensor& tensor) const;
  TensorMap load_all() const;

 private:
  std::string read_header();

  FileReader file_;
  SafetensorsHeader header_;
  uint64_t data_offset_ = 0;
};

// A tensor to write; `bytes` must stay valid until it is written.
struct TensorToStore {
  std::string name;
  const StoredDType* dtype = nullptr;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};
// Writes the tensors ordered by alignment, largest first, then by name. The data begins at a
// multiple of 8.
void write_safetensors(FileWriter& file, std::vector<TensorToStore> tensors,
                       const Metadata& metadata = {});
void write_safetensors(FileWriter& file, const TensorMap& tensors, const Metadata& metadata = {});

// "(2, 3)", "(4,)", "()"
std::string shape_text(std::span<const uint64_t> shape);

}  // namespace booster
