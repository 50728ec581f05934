#include "booster/checkpoint/safetensors/safetensors.h"

#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "platform/files/atomic_file.h"
#include "platform/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

namespace booster {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

constexpr size_t length_bytes = 8;

void check_to_store(const std::vector<TensorToStore>& tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    check(names.insert(tensor.name).second, "safetensors: two tensors named {}",
          show_text(tensor.name));
    check(tensor.name != "__metadata__", "safetensors: a tensor cannot be named __metadata__");
    uint64_t bits = static_cast<uint64_t>(tensor.dtype->bits);
    for (const uint64_t size : tensor.shape) bits *= size;
    check(bits == tensor.bytes.size() * 8,
          "safetensors: size of tensor {}; got {} bytes, want {} bits", show_text(tensor.name),
          tensor.bytes.size(), bits);
  }
}

std::string json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("safetensors: a name is not UTF-8; got {}", show_text(text));
  }
}

std::string header_json(const std::vector<TensorToStore>& tensors, const Metadata& metadata) {
  std::string text = "{";
  const auto comma = [&] { return text.size() == 1 ? "" : ","; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += (text.back() == '{' ? "" : ",") + json_string(key) + ":" + json_string(value);
    }
    text += "}";
  }
  uint64_t begin = 0;
  for (const auto& tensor : tensors) {
    const uint64_t end = begin + tensor.bytes.size();
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        comma(), json_string(tensor.name), tensor.dtype->name,
                        fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Returns a copy that write_safetensors can point to: on the CPU, contiguous, without a tape.
Tensor storable(const Tensor& tensor) {
  return untracked::contiguous(tensor.detach().to(Device{}));
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, Sha256* hash) : file_(path) {
  if (hash) file_.hash_into(*hash);
  const std::string text = read_header();
  data_offset_ = length_bytes + text.size();
  header_ = parse_safetensors_header(text, file_.size() - data_offset_, path.string());
}

// Checks the header's length against the limits and the file before it allocates memory.
std::string SafetensorsFile::read_header() {
  const std::string name = file_.path().string();
  if (file_.size() < length_bytes) {
    fail_data("{}: too small for a safetensors file; got {} bytes, want at least {}", name,
              file_.size(), length_bytes);
  }
  uint64_t length = 0;
  file_.read(0, &length, length_bytes);
  if (length > max_safetensors_header) {
    fail_data("{}: header too large; got {} bytes, want at most {}", name, length,
              max_safetensors_header);
  }
  if (length > file_.size() - length_bytes) {
    fail_data("{}: the header goes past the end of the file; got {} bytes, want at most {}", name,
              length, file_.size() - length_bytes);
  }
  std::string text(length, '\0');
  file_.read(length_bytes, text.data(), text.size());
  return text;
}

Tensor SafetensorsFile::load(const StoredTensor& tensor) const {
  const std::string name = file_.path().string() + ": tensor " + show_text(tensor.name);
  if (!tensor.dtype->dtype) {
    fail_data(
        "{} has a dtype that cannot be loaded; got {}, want F32, F64, F16, BF16, I32, I64, U8 or "
        "BOOL",
        name, tensor.dtype->name);
  }
  int64_t strides = 1;  // sizes of empty tensors are free, but their strides must fit
  bool too_large = tensor.shape.size() > kernels::max_dims;
  for (const uint64_t size : tensor.shape)
    too_large |= __builtin_mul_overflow(strides, std::max<uint64_t>(size, 1), &strides);
  if (too_large) {
    fail_data("{} has a shape that cannot be loaded; got {}, want at most {} dimensions", name,
              shape_text(tensor.shape), kernels::max_dims);
  }
  Tensor loaded = empty(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()),
                        {.dtype = *tensor.dtype->dtype});
  const size_t bytes = tensor.end - tensor.begin;
  file_.read(data_offset_ + tensor.begin, loaded.data(), bytes);
  const auto* first = static_cast<const uint8_t*>(loaded.data());
  const bool odd_bool = loaded.dtype() == DType::boolean &&
                        std::any_of(first, first + bytes, [](uint8_t byte) { return byte > 1; });
  if (odd_bool) fail_data("{} holds a BOOL that is neither 0 nor 1", name);
  return loaded;
}

TensorMap SafetensorsFile::load_all() const {
  TensorMap loaded;
  for (const auto& tensor : tensors()) loaded.emplace(tensor.name, load(tensor));
  return loaded;
}

void write_safetensors(FileWriter& file, std::vector<TensorToStore> tensors,
                       const Metadata& metadata) {
  check_to_store(tensors);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  const std::string header = header_json(tensors, metadata);
  check(header.size() <= max_safetensors_header,
        "safetensors: header too large; got {} bytes, want at most {}", header.size(),
        max_safetensors_header);
  const uint64_t length = header.size();
  file.write(&length, length_bytes);
  file.write(header);
  for (const auto& tensor : tensors) file.write(tensor.bytes.data(), tensor.bytes.size());
}

void write_safetensors(FileWriter& file, const TensorMap& tensors, const Metadata& metadata) {
  std::vector<Tensor> dense;  // keeps the copies alive
  std::vector<TensorToStore> to_store;
  for (const auto& [name, tensor] : tensors) {
    const Tensor& source = dense.emplace_back(storable(tensor));
    const auto view = source.view();
    to_store.push_back(
        {name,
         &stored_dtype(source.dtype()),
         {view.shape, view.shape + view.ndim},
         {static_cast<const std::byte*>(source.data()), static_cast<size_t>(source.bytes())}});
  }
  write_safetensors(file, std::move(to_store), metadata);
}

TensorMap load_safetensors(const std::filesystem::path& path, Sha256* hash) {
  return SafetensorsFile(path, hash).load_all();
}

void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                      const Metadata& metadata) {
  AtomicFile file(path);
  write_safetensors(file.writer(), tensors, metadata);
  file.commit();
}

}  // namespace booster
