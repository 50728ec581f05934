// Collects what is wrong with a config, so that one run reports everything. For one thread at a
// time.
#pragma once

#include "platform/json/json_document.h"

#include <string>
#include <string_view>
#include <vector>

namespace booster {

class Mistakes {
 public:
  // `file` names the document in positions. `root` gives the positions of keys; it must outlive
  // this.
  explicit Mistakes(std::string file, const JsonValue* root = nullptr)
      : file_(std::move(file)), root_(root) {}

  // Adds a mistake in the value of the key at `path`, or in the key itself. `problem` is printed
  // after the position and the path: "wrong type; got 3, want an object".
  void add(const JsonValue& value, const std::string& path, const std::string& problem);
  void add_key(const JsonValue& value, const std::string& path, const std::string& problem);
  // Adds a mistake at a path ("optimizer.betas"), at the nearest position that the document has.
  void add(const std::string& path, const std::string& problem);
  // Adds a mistake in an override that cannot be applied; `text` names the override.
  void add_override(const std::string& text);

  // Returns true if there is a mistake at this path or below.
  bool any_in(std::string_view path) const;
  // Throws an Error with one line per mistake, in the order of the document and then of the
  // overrides; does nothing if there are none. Beyond 50 it states how many more there are.
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
