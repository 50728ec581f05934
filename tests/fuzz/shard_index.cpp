// A shard index: an accepted index only has plain names in its own folder, and is unchanged when
// written again.
#include "booster/checkpoint/safetensors/shard_index.h"
#include "tests/fuzz/target.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::accepts([&] {
    const ShardIndex index = parse_shard_index(fuzz::text_of(data, size), "index.json");
    size_t tensors = 0;
    for (const std::string& file : index.files()) {
      const std::filesystem::path path = std::filesystem::path("folder") / file;
      fuzz::promise(path.lexically_normal().parent_path() == "folder", "a file lies in the folder");
      fuzz::promise(path.extension() == ".safetensors", "it has the extension of tensors");
      tensors += index.tensors_of(file).size();
    }
    fuzz::promise(tensors == index.weight_map.size(), "each tensor is in one file");
    const ShardIndex again = parse_shard_index(index.to_text(), "again.json");
    fuzz::promise(again.weight_map == index.weight_map && again.total_size == index.total_size,
                  "an index is written as it was read");
  });
  return 0;
}
