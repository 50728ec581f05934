// Arbitrary bytes sent to a store, in one piece and byte by byte.
#include "parallel/rendezvous/store/frames.h"
#include "tests/fuzz/target.h"

using namespace booster;

namespace {

constexpr size_t longest = 4096;

// The accepted frames as bytes, and whether the rest was refused.
struct Outcome {
  std::string accepted;
  bool refused = false;
  bool operator==(const Outcome&) const = default;
};

void read_all(FrameReader& reader, Outcome& outcome) {
  outcome.refused |= !fuzz::accepts([&] {
    while (const auto frame = reader.next()) {
      outcome.accepted += encoded(*frame);
      for (const std::string& text : frame->texts)
        fuzz::accepts([&] { number_in(text, 1 << 20); });
    }
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  Outcome whole, pieces;
  FrameReader at_once(longest), slowly(longest);
  at_once.add(bytes);
  read_all(at_once, whole);
  for (size_t at = 0; at < bytes.size() && !pieces.refused; ++at) {
    slowly.add(bytes.substr(at, 1));
    read_all(slowly, pieces);
  }
  fuzz::promise(whole == pieces, "frames do not depend on how the bytes come");
  fuzz::promise(bytes.starts_with(whole.accepted), "frames are encoded as they came");
  return 0;
}
