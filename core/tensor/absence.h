// Tensors without memory. Shape, dtype and every handle stay valid; the values are not there yet,
// or are temporarily away:
//
//   Model model;
//   { const LazyInit lazy; model = models::vit(name); }  // no memory so far
//
// A tensor made under LazyInit gets its memory and its initial values at its first read or write.
// The values do not depend on LazyInit or on the order of first uses: each draw reserves its place
// in the random stream at once. So a model that exceeds the memory of one rank can be made, and
// then sharded tensor by tensor.
//
// Values that are still being produced (renew_on_use) arrive in the same manner: the first use of
// the tensor waits for them.
//
// A sharded tensor keeps a flat part of its elements on this rank; the whole is restored for a use
// and freed again. Reading or writing it while it is away is an error that says so.
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

// Any use is an error until take_memory: the text says so, and what to do.
struct KeptAway {
  std::string refusal;
};

// The elements that this rank keeps of a sharded tensor.
struct KeptPart {
  Tensor elements;  // flat; undefined: none
  ElementRange range;
};

// What a storage's first use does while it has no memory; and the part that a rank keeps, whether
// or not the whole has memory.
class Absence {
 public:
  // Empty unless the values are kept away.
  const std::string& refusal() const;
  // With an empty text the first use may allocate the memory, and nothing writes it.
  void keep_away(std::string refusal);

  // Adds a writer. Returns false, and adds nothing, while the values are kept away.
  bool add_write(WriteOnUse write);
  // Returns the writers, and leaves none.
  std::vector<WriteOnUse> take_writes();
  void make_on_use(std::vector<WriteOnUse> writes) { state_ = MadeOnUse{std::move(writes)}; }

  void gather_on_use(SpreadColumns columns, WriteOnUse write) {
    state_ = GatheredOnUse{std::move(columns), std::move(write)};
  }
  // Null unless the columns are spread and nothing was written since.
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
// Runs write(x) now, or when x is first used. `write` must own all that it needs, but hold no
// tensor.
template <class F>
void write_numbers(const Tensor& x, F&& write) {
  if (has_memory(x) || !put_off(x, write)) write(x);
}

// Returns whether x is dense and alone fills a storage that the allocator made.
bool fills_storage(const Tensor& x);
// Frees the memory of x, which fills its storage, until something first reads or writes x; `write`
// then produces its values. Raises x's version now. What `write` throws is thrown by that use and
// by each later one.
void renew_on_use(const Tensor& x, const std::function<void(const Tensor& x)>& write);

// --- a tensor of which this rank keeps a part; the tensor fills its storage
// Copies these elements of x into the kept part. It lies on device `on`; by default where the
// previous part was, or else on x's device.
void keep_part(const Tensor& x, ElementRange range, std::optional<Device> on = {});
// Return the part, of one dimension, and its range in x; undefined and empty if there is none.
Tensor kept_part(const Tensor& x);
ElementRange kept_range(const Tensor& x);
// Returns what this rank keeps of x: the part, or x itself, off the tape.
Tensor numbers_here(const Tensor& x);
// Copies the part's elements, if there is a part, from a tensor of x's shape. Error if x is a view
// of a tensor that is away.
void copy_to_part(const Tensor& x, const Tensor& from);
// Frees x's storage. Until it is restored, any access to x throws `refusal`.
void give_back_memory(const Tensor& x, const std::string& refusal);
// Restores x's storage, uninitialised: the caller writes the values.
void take_memory(const Tensor& x);
// Makes x a tensor of this dtype with the same kept part, converted. The whole stays away.
void convert_part_(const Tensor& x, DType dtype);

}  // namespace booster
