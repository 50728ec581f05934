// The safetensors format (huggingface/safetensors, version of May 2026): eight bytes of header
// length, a JSON header, the tensors' bytes.
//
// Reading is safe for any input and checks every rule of the format before it returns anything;
// each Error (kind data) names the broken rule, the tensor and the offsets. White space around the
// header is accepted, as in the reference reader; duplicate names are refused, as the specification
// requires. Writing is reproducible: the same tensors give the same bytes. Functions share no
// state; a SafetensorsFile may be read from several threads.
#pragma once

#include "core/tensor/tensor.h"
#include "platform/files/file.h"

#include <map>
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

using Metadata = std::map<std::string, std::string>;
using TensorMap = std::map<std::string, Tensor>;

struct StoredTensor {
  std::string name;
  const StoredDType* dtype = nullptr;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset
  Metadata metadata;
};
// Reads the JSON text of a header that is followed by `data_bytes` bytes of data; checks every
// rule. `file` names the file in errors.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& file);

inline constexpr uint64_t max_safetensors_header = 100'000'000;
// Ours, like the reference's of the header: a file of small ones would take ten times its size.
inline constexpr size_t max_safetensors_tensors = 1'000'000, max_safetensors_metadata = 10'000;
// Bytes of a name or of a text of metadata.
inline constexpr size_t max_safetensors_text = 4'000'000;

class SafetensorsFile {
 public:
  // `hash`: what is read, from the first byte on, is added to it; load_all() completes it.
  explicit SafetensorsFile(const std::filesystem::path& path, Sha256* hash = nullptr);

  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // Reads it; error if we do not support its dtype or its number of dimensions.
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
// Tensors are ordered by alignment, largest first, then by name; the data begins at a multiple of
// 8.
void write_safetensors(FileWriter& file, std::vector<TensorToStore> tensors,
                       const Metadata& metadata = {});
void write_safetensors(FileWriter& file, const TensorMap& tensors, const Metadata& metadata = {});

TensorMap load_safetensors(const std::filesystem::path& path, Sha256* hash = nullptr);
// Replaces the file completely or not at all.
void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                      const Metadata& metadata = {});

// "(2, 3)", "(4,)", "()"
std::string shape_text(std::span<const uint64_t> shape);

}  // namespace booster
