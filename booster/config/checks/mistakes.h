// What is wrong with a config, collected, so that one run tells all of it. For one thread at a
// time.
#pragma once

#include "platform/json/json_document.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

class Mistakes {
 public:
  // `file` names the document in places; `root` finds the places of keys' paths, and outlives this.
  explicit Mistakes(std::string file, const JsonValue* root = nullptr)
      : file_(std::move(file)), root_(root) {}

  // About the value of the key at `path`, or about the key itself. `problem` follows the place and
  // the path: "wrong type; got 3, want an object".
  void add(const JsonValue& value, const std::string& path, const std::string& problem);
  void add_key(const JsonValue& value, const std::string& path, const std::string& problem);
  // About what stands at a path ("optimizer.betas"), as far as the document says something there.
  void add(const std::string& path, const std::string& problem);
  // About an override that cannot be applied; `text` says which.
  void add_override(const std::string& text);

  // True if there is one at this path or below.
  bool any_in(std::string_view path) const;
  // An Error with a line for each, in the order of the document and then of the overrides; nothing
  // if there are none. Beyond 50 it says how many more there are.
  void raise() const;

 private:
  struct Mistake {
    bool is_override;
    JsonPosition position;
    std::string path;
    std::string text;
  };
  std::string file_;
  const JsonValue* root_;
  std::vector<Mistake> all_;
};

}  // namespace booster
