#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "platform/json/json_document.h"
#include "platform/json/json_text.h"

#include <algorithm>
#include <array>

namespace booster {

namespace {

constexpr std::string_view metadata_name = "__metadata__";
constexpr size_t most_dimensions = 1024;  // our limit, so that shapes take little memory

constexpr std::array<StoredDType, 22> dtypes = {{
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, {}},
    {"F32", 32, DType::f32},
    {"C64", 64, {}},
    {"F64", 64, DType::f64},
    {"I64", 64, DType::i64},
    {"U64", 64, {}},
}};

// Reads the header as a stream of events, so that memory grows only with the number of tensors,
// whatever the text contains. There are only four contexts: the file's object, a tensor, its list
// of numbers, the metadata; an event that does not fit its context stops the parser.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& file, uint64_t data_bytes)
      : file_(file), data_bytes_(data_bytes) {}

  SafetensorsHeader header;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is not a whole number of 64 bits");
  }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool binary(binary_t&) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::numbers) unexpected("a number");
    numbers_.push_back(value);
    if (numbers_.size() > most_dimensions)
      broken("tensor {} has more than {} dimensions", current(), most_dimensions);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (header.metadata.size() == max_safetensors_metadata)
        broken("too many metadata keys; want at most {}", max_safetensors_metadata);
      if (!header.metadata.emplace(key_, std::move(value)).second) {
        broken("duplicate metadata key {}; want each key once", show_text(key_));
      }
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") unexpected("a string");
    const auto row =
        std::find_if(dtypes.begin(), dtypes.end(), [&](auto& d) { return d.name == value; });
    if (row == dtypes.end())
      broken("unknown dtype of tensor {}; got {}{}", current(), show_text(value),
             dtype_names(value));
    header.tensors.back().dtype = &*row;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::file;
    } else if (place_ == Place::file && key_ == metadata_name) {
      if (metadata_seen_) broken("duplicate {}; want it once", metadata_name);
      metadata_seen_ = true;
      place_ = Place::metadata;
    } else if (place_ == Place::file) {
      if (header.tensors.size() == max_safetensors_tensors)
        broken("too many tensors; want at most {}", max_safetensors_tensors);
      header.tensors.emplace_back().name = key_;
      fields_ = {};
      place_ = Place::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }
  bool end_object() override {
    const bool was_tensor = place_ == Place::tensor;
    if (was_tensor) check_fields();
    place_ = place_ == Place::file ? Place::outside : Place::file;
    return !was_tensor || fits_with_those_before();
  }
  bool start_array(size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") unexpected("a list");
    place_ = Place::numbers;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    auto& tensor = header.tensors.back();
    if (key_ == "shape") {
      tensor.shape = numbers_;
    } else if (numbers_.size() != 2) {
      broken("data_offsets of tensor {}; got {} numbers, want 2", current(), numbers_.size());
    } else {
      tensor.begin = numbers_[0];
      tensor.end = numbers_[1];
    }
    place_ = Place::tensor;
    return true;
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ != Place::tensor) return true;
    const auto field = std::find(field_names.begin(), field_names.end(), key_);
    if (field == field_names.end())
      broken("unknown field {} of tensor {}; want dtype, shape, data_offsets", show_text(key_),
             current());
    bool& seen = fields_[static_cast<size_t>(field - field_names.begin())];
    if (seen) broken("duplicate field {} of tensor {}; want it once", key_, current());
    seen = true;
    return true;
  }
  bool parse_error(size_t offset, const std::string&, const nlohmann::json::exception& e) override {
    broken("the header is not JSON at byte {}: {}", 8 + offset, json_problem(e));
  }

  template <class... T>
  [[noreturn]] void broken(fmt::format_string<T...> format, T&&... args) const {
    fail_data("{}: {}", file_, fmt::vformat(format, fmt::make_format_args(args...)));
  }

 private:
  enum class Place { outside, file, tensor, numbers, metadata };
  static constexpr std::array<std::string_view, 3> field_names = {"dtype", "shape", "data_offsets"};

  std::string current() const { return show_text(header.tensors.back().name); }
  static std::string dtype_names(const std::string& got) {
    std::vector<std::string> names;
    for (const auto& row : dtypes) names.push_back(row.name);
    return legal_names(got.substr(0, 60), names);
  }
  [[noreturn]] void unexpected(const char* got) const {
    switch (place_) {
      case Place::outside: broken("the header; got {}, want an object", got);
      case Place::file: broken("entry {}; got {}, want an object", show_text(key_), got);
      case Place::metadata: broken("metadata key {}; got {}, want a string", show_text(key_), got);
      case Place::tensor:
        broken("field {} of tensor {}; got {}, want {}", key_, current(), got,
               key_ == "dtype" ? "a string" : "a list of numbers");
      case Place::numbers: break;
    }
    broken("{} of tensor {}; got {}, want whole numbers from 0", key_, current(), got);
  }
  void check_fields() const {
    for (size_t i = 0; i < fields_.size(); ++i)
      if (!fields_[i]) broken("tensor {} lacks the field {}", current(), field_names[i]);
  }

  // Tensors that claim more bytes than exist must overlap or be out of range: parsing stops here,
  // before a hostile header with a million of them fills memory, and the later checks find the
  // culprit.
  bool fits_with_those_before() {
    const auto& tensor = header.tensors.back();
    if (tensor.end > tensor.begin) {
      fits_ = fits_ && !__builtin_add_overflow(claimed_, tensor.end - tensor.begin, &claimed_);
    }
    return fits_ && claimed_ <= data_bytes_;
  }

  const std::string& file_;
  uint64_t data_bytes_;
  uint64_t claimed_ = 0;
  bool fits_ = true;
  Place place_ = Place::outside;
  std::string key_;
  std::array<bool, 3> fields_ = {};
  std::vector<uint64_t> numbers_;
  bool metadata_seen_ = false;
};

void check_names(const std::vector<StoredTensor>& tensors, const HeaderReader& reader) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    reader.broken("duplicate tensor name {}; want each name once", show_text(*twice));
}

// Bytes required by shape and dtype.
uint64_t bytes_wanted(const StoredTensor& tensor, const HeaderReader& reader) {
  uint64_t bits = 1;
  bool overflow = false;
  for (const uint64_t size : tensor.shape) overflow |= __builtin_mul_overflow(bits, size, &bits);
  overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(tensor.dtype->bits), &bits);
  if (overflow || bits % 8) {
    const char* rule = overflow ? "size overflow" : "not whole bytes";
    reader.broken("{}; got tensor {} at [{}, {}) of shape {} and dtype {}", rule,
                  show_text(tensor.name), tensor.begin, tensor.end, shape_text(tensor.shape),
                  tensor.dtype->name);
  }
  return bits / 8;
}

// The tensors must tile the data: no overlap, no hole, nothing after the last.
void check_offsets(const std::vector<StoredTensor>& tensors, uint64_t data_bytes,
                   const HeaderReader& reader) {
  const StoredTensor* before = nullptr;
  uint64_t expected = 0;
  const auto expected_text = [&] {
    const std::string what =
        before ? "the end of tensor " + show_text(before->name) : "the start of the data";
    return fmt::format("{}, {}", expected, what);
  };
  for (const auto& tensor : tensors) {
    const auto where = [&] {
      return fmt::format("tensor {} at [{}, {})", show_text(tensor.name), tensor.begin, tensor.end);
    };
    if (tensor.end < tensor.begin) reader.broken("data_offsets run backwards; got {}", where());
    if (tensor.begin != expected) {
      const char* rule = tensor.begin > expected ? "hole in the data" : "overlap";
      reader.broken("{}; got {}, want it to begin at {}", rule, where(), expected_text());
    }
    const uint64_t wanted = bytes_wanted(tensor, reader);
    if (tensor.end - tensor.begin != wanted) {
      reader.broken("size of {}; got {} bytes, want {} for shape {} of {}", where(),
                    tensor.end - tensor.begin, wanted, shape_text(tensor.shape),
                    tensor.dtype->name);
    }
    if (tensor.end > data_bytes) {
      reader.broken("{} lies outside the file; want its end at most at {}, the end of the data",
                    where(), data_bytes);
    }
    expected = tensor.end;
    before = &tensor;
  }
  if (expected != data_bytes) {
    reader.broken("trailing bytes; got {} bytes of data, want {}", data_bytes, expected_text());
  }
}

}  // namespace

const StoredDType& stored_dtype(DType dtype) {
  for (const auto& row : dtypes)
    if (row.dtype == dtype) return row;
  fail("safetensors: no such dtype in the format; got {}", name_of(dtype));
}

std::string shape_text(std::span<const uint64_t> shape) {
  constexpr size_t most_shown = 16;
  std::string text = "(";
  for (size_t i = 0; i < std::min(shape.size(), most_shown); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() == 1) text += ",";
  return text + (shape.size() > most_shown ? ", ...)" : ")");
}

namespace {

// A parser takes several times its memory for a text, before anybody can say that it is too long.
void check_texts(std::string_view json, const HeaderReader& reader) {
  size_t begin = json.npos;  // of the text that is open
  for (size_t i = 0; i < json.size(); ++i) {
    if (begin != json.npos && i - begin > max_safetensors_text) {
      reader.broken("a name or text of metadata is too long at byte {}; want at most {} bytes",
                    8 + begin, max_safetensors_text);
    }
    if (json[i] == '\\' && begin != json.npos) ++i;
    else if (json[i] == '"') begin = begin == json.npos ? i : json.npos;
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& file) {
  HeaderReader reader(file, data_bytes);
  // nlohmann_json treats a zero byte as the end and skips a byte order mark.
  const size_t zero = text.find('\0');
  if (zero != text.npos) reader.broken("the header is not JSON at byte {}: a zero byte", 8 + zero);
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    reader.broken("the header begins with a byte order mark; want an object");
  check_texts(text, reader);
  read_events(text, reader);
  auto& tensors = reader.header.tensors;
  check_names(tensors, reader);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_offsets(tensors, data_bytes, reader);
  return std::move(reader.header);
}

}  // namespace booster
