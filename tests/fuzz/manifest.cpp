// A checkpoint's manifest.json, in a folder with one file that it may name.
#include "booster/checkpoint/folder/manifest.h"
#include "tests/fuzz/own_folder.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = [] {
    const auto made = fuzz::own_folder();
    fuzz::put_file(made / "state.json", "{}\n");
    return made;
  }();
  fuzz::put_file(folder / manifest_name, fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const Manifest manifest = read_manifest(folder);
    fuzz::accepts([&] { verify_manifest(manifest, folder); });
    fuzz::put_file(folder / manifest_name, manifest.to_text());
    const Manifest again = read_manifest(folder);
    fuzz::promise(again.to_text() == manifest.to_text(), "a manifest is written as it was read");
  });
  return 0;
}
