// Flight records for `booster inspect`: the input holds the records of two ranks, separated by a
// zero byte.
#include "tests/fuzz/own_folder.h"
#include "tools/commands/inspect_flight.h"

using namespace booster;

namespace {

// Captures standard output in a memory file.
class Output {
 public:
  Output() : descriptor_(memfd_create("output", MFD_CLOEXEC)) {
    fuzz::promise(descriptor_ >= 0 && dup2(descriptor_, STDOUT_FILENO) == STDOUT_FILENO,
                  "standard output can be caught");
  }
  // Returns the output since the last call.
  std::string take() const {
    std::fflush(stdout);
    std::string text(static_cast<size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
    const ssize_t n = pread(descriptor_, text.data(), text.size(), 0);
    const bool done = n == static_cast<ssize_t>(text.size()) && ftruncate(descriptor_, 0) == 0 &&
                      lseek(descriptor_, 0, SEEK_SET) == 0;
    fuzz::promise(done, "standard output can be read back");
    return text;
  }

 private:
  int descriptor_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = fuzz::own_folder();
  static const Output output;
  std::string_view rest = fuzz::text_of(data, size);
  for (const char* name : {"flight-0.json", "flight-1.json"})
    fuzz::put_file(folder / name, fuzz::take_part(rest));
  fuzz::accepts([&] { cli::print_flight_records(folder); });
  fuzz::promise(fuzz::is_plain(output.take()), "what is printed is plain text");
  return 0;
}
