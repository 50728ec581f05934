// A safetensors file: accepted tensors lie within it, without gaps, and can be loaded.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "tests/fuzz/target.h"

using namespace booster;

namespace {

void check_ranges(const SafetensorsFile& file) {
  uint64_t end = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    fuzz::promise(tensor.begin == end, "tensors follow each other without gaps");
    end = tensor.end;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::MemoryFile memory(fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const SafetensorsFile file(memory.path());
    check_ranges(file);
    for (const StoredTensor& tensor : file.tensors()) {
      fuzz::accepts([&] {  // may refuse unsupported dtypes and dimensions
        const Tensor loaded = file.load(tensor);
        const auto bytes = static_cast<uint64_t>(loaded.bytes());
        fuzz::promise(bytes == tensor.end - tensor.begin, "it is loaded whole");
      });
    }
  });
  return 0;
}
