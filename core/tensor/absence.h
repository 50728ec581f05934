// Tensors without memory. Shape, dtype and every handle are valid, but the values do not exist yet,
// or are temporarily absent:
//
//   Model model;
//   { const LazyInit lazy; model = models::vit(name); }  // no memory so far
//
// A tensor made under LazyInit gets its memory and its initial values at its first read or write.
// The values do not depend on LazyInit or on the order of first uses, because each draw reserves
// its place in the random stream immediately. A program can thus make a model that exceeds the
// memory of one rank, and then shard it tensor by tensor.
//
// renew_on_use works in the same way for values that are still being produced: the first use waits
// for them.
//
// A sharded tensor keeps a flat part of its elements on this rank. The whole is restored for a use
// and then freed again. Reading or writing it while it is absent throws.
#pragma once

#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace booster {

class Recipe;  // core/tensor/computed_on_use.h

// Writes values at the first use; receives the storage with its memory.
using WriteOnUse = std::function<void(Storage& storage)>;

// The first use allocates the memory and runs the writers in order (LazyInit, renew_on_use).
struct MadeOnUse {
  std::vector<WriteOnUse> writes;
};

// The columns are spread over ranks. The first use gathers them with `write`.
struct GatheredOnUse {
  SpreadColumns columns;
  WriteOnUse write;
};

// The first use computes the values with `write` (computed_on_use).
struct ComputedOnUse {
  std::shared_ptr<const Recipe> recipe;
  int64_t columns;  // the last size
  WriteOnUse write;
};

// Any use throws this text until take_memory; it includes a remedy.
struct KeptAway {
  std::string refusal;
};

// The elements that this rank keeps of a sharded tensor.
struct KeptPart {
  Tensor elements;  // flat; undefined: none
  ElementRange range;
};

// Defines a storage's first use while it has no memory. Also holds the part that a rank keeps, with
// or without the whole.
class Absence {
 public:
  // Returns the error text of any use; empty unless the values are kept away.
  const std::string& refusal() const;
  // Keeps the values away. If the text is empty, the first use may allocate the memory,
  // uninitialised.
  void keep_away(std::string refusal);

  // Adds a writer. Returns false, and adds nothing, while the values are kept away.
  bool add_write(WriteOnUse write);
  // Returns the writers, and leaves none.
  std::vector<WriteOnUse> take_writes();
  void make_on_use(std::vector<WriteOnUse> writes) { state_ = MadeOnUse{std::move(writes)}; }

  void gather_on_use(SpreadColumns columns, WriteOnUse write) {
    state_ = GatheredOnUse{std::move(columns), std::move(write)};
  }
  // Returns the spread columns; null if they are not spread or were written since.
  const SpreadColumns* spread() const;
  void compute_on_use(std::shared_ptr<const Recipe> recipe, int64_t columns, WriteOnUse write) {
    state_ = ComputedOnUse{std::move(recipe), columns, std::move(write)};
  }
  // Null unless the values have a recipe and nothing was written since.
  const ComputedOnUse* computed() const { return std::get_if<ComputedOnUse>(&state_); }

  KeptPart part;

 private:
  std::variant<MadeOnUse, GatheredOnUse, ComputedOnUse, KeptAway> state_;
};

inline bool has_memory(const Tensor& x) { return x.body()->storage->has_memory(); }

// Defers `write` to the first use of x. Returns false, and defers nothing, if a refusal keeps x
// away. x has no memory.
bool put_off(const Tensor& x, const std::function<void(const Tensor& x)>& write);
// Returns `write` as a writer of x's storage.
WriteOnUse write_on_use(const Tensor& x, const std::function<void(const Tensor& x)>& write);
// Runs write(x) now, or at x's first use. `write` must own all its data, but hold no tensor.
template <class F>
void write_numbers(const Tensor& x, F&& write) {
  if (has_memory(x) || !put_off(x, write)) write(x);
}

// Returns true if x is dense and alone fills a storage of the allocator.
bool fills_storage(const Tensor& x);
// Frees the memory of x, which fills its storage. The first read or write of x then calls `write`
// to produce its values. Raises x's version now. If `write` throws, that use and each later one
// throw the same.
void renew_on_use(const Tensor& x, const std::function<void(const Tensor& x)>& write);

// --- a tensor of which this rank keeps a part; the tensor fills its storage
// Copies these elements of x into the kept part on device `on`. The default is the previous part's
// device, or else x's.
void keep_part(const Tensor& x, ElementRange range, std::optional<Device> on = {});
// Return the part, of one dimension, and its range in x; undefined and empty if there is none.
Tensor kept_part(const Tensor& x);
ElementRange kept_range(const Tensor& x);
// Returns this rank's values of x: the part, or x itself, off the tape.
Tensor numbers_here(const Tensor& x);
// Copies the part's elements, if there is a part, from a tensor of x's shape. Throws if x is a view
// of an absent tensor.
void copy_to_part(const Tensor& x, const Tensor& from);
// Frees x's storage. Until it is restored, any access to x throws `refusal`.
void give_back_memory(const Tensor& x, const std::string& refusal);
// Restores x's storage, uninitialised; the caller must write the values.
void take_memory(const Tensor& x);
// Makes x a tensor of this dtype with the same kept part, converted. The whole stays absent.
void convert_part_(const Tensor& x, DType dtype);

}  // namespace booster
