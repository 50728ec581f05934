// Texts by a trained model. For one thread.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <string>
#include <vector>

namespace language_model {

class Writer {
 public:
  // Reads the model of a folder that transformers or a training has written, with its tokeniser.
  Writer(const std::filesystem::path& folder, booster::Device device);

  // Returns the text of the prompt and of what the model adds, safe to print. Ends at
  // the folder's stop tokens, or where the model has no more positions.
  std::string write(const std::vector<int32_t>& prompt, booster::GenerateOptions options) const;
  const booster::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  booster::Model model_;
  booster::Tokenizer tokenizer_;
  std::vector<int32_t> stops_;
};

}  // namespace language_model
