// A tar or zip file of images: its index and its members. It is tried unchanged, and as a tar with
// corrected header checksums, since most changes would otherwise fail at the first checksum.
#include "core/data/archives/archive.h"
#include "core/data/images/image.h"
#include "tests/fuzz/own_folder.h"

#include <fmt/format.h>

#include <string>

using namespace booster;

namespace {

constexpr size_t block = 512, checksum_at = 148, checksum_bytes = 8;

std::string with_right_checksums(std::string file) {
  for (size_t at = 0; at + block <= file.size(); at += block) {
    unsigned sum = 0;
    for (size_t i = 0; i < block; ++i) {
      const bool within = i >= checksum_at && i < checksum_at + checksum_bytes;
      sum += within ? ' ' : static_cast<unsigned char>(file[at + i]);
    }
    file.replace(at + checksum_at, checksum_bytes,
                 fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  }
  return file;
}

void read_all(const std::string& bytes) {
  static const std::filesystem::path folder = fuzz::own_folder();
  fuzz::put_file(folder / "archive", bytes);
  fuzz::accepts([&] {
    const Archive archive(folder / "archive");
    std::string before;
    for (const ArchiveMember& member : archive.members()) {
      fuzz::promise(before.empty() || before < member.name, "names are sorted, each once");
      fuzz::promise(!member.name.empty() && member.name[0] != '/' &&
                        ("/" + member.name + "/").find("/../") == std::string::npos,
                    "names stay within the archive");
      before = member.name;
      fuzz::accepts([&] {
        fuzz::promise(archive.read(member).size() == member.bytes, "all bytes are read");
      });
    }
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file(fuzz::text_of(data, size));
  read_all(file);
  if (!file.starts_with("PK")) read_all(with_right_checksums(file));
  return 0;
}
