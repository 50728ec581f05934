// The bytes of a text as windows to learn from.
#pragma once

#include <booster/booster.h>

#include <string>

namespace gpt2_text {

// Windows of so many bytes, one behind the other; their targets are the same bytes moved on by one.
// Both are u8 (windows, tokens) and share the text's memory.
struct Windows {
  booster::Tensor inputs, targets;
  int64_t size() const { return inputs.size(0); }
};

struct Texts {
  Windows train, validation;  // the text's beginning and its end
  std::string said;           // what to tell the user about them
  bool made = false;          // made up, for want of a file
};
// The file data.file, or a text of made-up sentences. Error of kind data if it cannot be read or is
// too short for a window in each part.
Texts open_texts(const booster::Config& config);

}  // namespace gpt2_text
