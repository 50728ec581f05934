// Splits the bytes of a text into training windows.
#pragma once

#include <booster/booster.h>

#include <string>

namespace language_model {

// Consecutive windows of equal length. Targets are the same bytes shifted by one. Both are u8
// (windows, tokens) and share the text's memory.
struct Windows {
  booster::Tensor inputs, targets;
  int64_t size() const { return inputs.size(0); }
};

struct Texts {
  Windows train, validation;  // from the beginning and the end of the text
  std::string said;           // a message about them for the user
  bool made = false;          // generated, because no file was given
};
// Opens the file data.file, or generates a text of sentences. Throws an Error of kind data if the
// file cannot be read or is too short for a window in each part.
Texts open_texts(const booster::Config& config);

}  // namespace language_model
