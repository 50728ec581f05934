#include "core/tensor/absence.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/host/recording.h"

namespace booster {

namespace {

thread_local bool lazy_init = false;

Storage& storage_of(const Tensor& x) { return *x.body()->storage; }

// Shape, strides and offset of a tensor on a storage, without a reference to the storage.
struct Window {
  explicit Window(const Tensor& x)
      : shape(x.shape()), strides(x.strides()), offset(x.body()->offset), dtype(x.dtype()) {}
  Tensor on(Storage& storage) const {
    Reference<TensorBody> body(new TensorBody);
    body->storage = Reference<Storage>(&storage);
    body->offset = offset;
    body->shape = shape;
    body->strides = strides;
    body->dtype = dtype;
    return Tensor(std::move(body));
  }

  Shape shape, strides;
  int64_t offset;
  DType dtype;
};

void check_alone(const char* what, const Tensor& x) {
  check(fills_storage(x),
        "{}: want a dense tensor that fills its own memory; got shape {} on {} bytes", what,
        x.shape(), storage_of(x).bytes);
}

Absence& absence_of(Storage& storage) {
  if (!storage.absence) storage.absence = std::make_unique<Absence>();
  return *storage.absence;
}

}  // namespace

LazyInit::LazyInit() : before_(std::exchange(lazy_init, true)) {}
LazyInit::~LazyInit() { lazy_init = before_; }
bool LazyInit::is_active() { return lazy_init; }

const std::string& Absence::refusal() const {
  static const std::string none;
  const auto* away = std::get_if<KeptAway>(&state_);
  return away ? away->refusal : none;
}

void Absence::keep_away(std::string refusal) {
  if (refusal.empty()) state_ = MadeOnUse();
  else state_ = KeptAway{std::move(refusal)};
}

std::vector<WriteOnUse> Absence::take_writes() {
  std::vector<WriteOnUse> writes;
  if (auto* gathered = std::get_if<GatheredOnUse>(&state_)) {
    writes.push_back(std::move(gathered->write));
    state_ = MadeOnUse();
  } else if (auto* computed = std::get_if<ComputedOnUse>(&state_)) {
    writes.push_back(std::move(computed->write));
    state_ = MadeOnUse();
  } else if (auto* made = std::get_if<MadeOnUse>(&state_)) {
    writes.swap(made->writes);
  }
  return writes;
}

bool Absence::add_write(WriteOnUse write) {
  if (std::holds_alternative<KeptAway>(state_)) return false;
  std::vector<WriteOnUse> writes = take_writes();
  writes.push_back(std::move(write));
  make_on_use(std::move(writes));
  return true;
}

const SpreadColumns* Absence::spread() const {
  const auto* gathered = std::get_if<GatheredOnUse>(&state_);
  return gathered ? &gathered->columns : nullptr;
}

void Storage::use() {
  check(absence->refusal().empty(), "{}", absence->refusal());
  kernels::refuse_to_record("the first use of a tensor without memory",
                            "because each replay would reset it to its initial values",
                            "to run the work once before the capture");
  const std::vector<WriteOnUse> writes = absence->take_writes();
  data = allocate(device, static_cast<size_t>(bytes), tag);
  const uint32_t before = version;  // the first use is not a change
  try {
    for (const auto& write : writes) write(*this);
  } catch (...) {  // the present content is not a value
    release(device, std::exchange(data, nullptr), static_cast<size_t>(bytes), tag);
    version = before;
    absence->make_on_use(writes);
    throw;
  }
  version = before;
}

WriteOnUse write_on_use(const Tensor& x, const std::function<void(const Tensor&)>& write) {
  return [window = Window(x), write](Storage& used) { write(window.on(used)); };
}

bool put_off(const Tensor& x, const std::function<void(const Tensor&)>& write) {
  return storage_of(x).absence->add_write(write_on_use(x, write));  // false: any use throws
}

bool fills_storage(const Tensor& x) {
  const Storage& storage = storage_of(x);
  return x.is_contiguous() && x.bytes() == storage.bytes && !storage.on_release;
}

void renew_on_use(const Tensor& x, const std::function<void(const Tensor&)>& write) {
  give_back_memory(x, "");
  storage_of(x).absence->make_on_use({write_on_use(x, write)});
  x.bump_version();
}

void keep_part(const Tensor& x, ElementRange range, std::optional<Device> on) {
  check_alone("keep_part", x);
  const MemoryScope memory(storage_of(x).tag);
  const Tensor before = kept_part(x);
  const Device device = on.value_or(before.defined() ? before.device() : x.device());
  Tensor part = empty({range.size()}, {x.dtype(), device});
  part.copy_(untracked::strided(x, {range.size()}, {1}, range.begin));
  absence_of(storage_of(x)).part = {std::move(part), range};
}

Tensor kept_part(const Tensor& x) {
  const Storage& storage = storage_of(x);
  return storage.absence ? storage.absence->part.elements : Tensor();
}

ElementRange kept_range(const Tensor& x) {
  const Storage& storage = storage_of(x);
  return storage.absence ? storage.absence->part.range : ElementRange{};
}

Tensor numbers_here(const Tensor& x) {
  const Tensor part = kept_part(x);
  return part.defined() ? part : x.detach();
}

void copy_to_part(const Tensor& x, const Tensor& from) {
  Storage& storage = storage_of(x);
  if (!storage.absence || !storage.absence->part.elements.defined()) return;
  if (!x.is_contiguous() || x.bytes() != storage.bytes) {
    check(storage.has_memory(), "{}", storage.absence->refusal());
    return;  // the part is updated when the memory is freed
  }
  const ElementRange range = storage.absence->part.range;
  storage.absence->part.elements.copy_(
      untracked::narrow(untracked::reshape(from, {-1}), 0, range.begin, range.size()));
}

void give_back_memory(const Tensor& x, const std::string& refusal) {
  check_alone("give_back_memory", x);
  Storage& storage = storage_of(x);
  absence_of(storage).keep_away(refusal);
  if (!storage.data) return;
  release(storage.device, std::exchange(storage.data, nullptr), static_cast<size_t>(storage.bytes),
          storage.tag);
}

void take_memory(const Tensor& x) {
  Storage& storage = storage_of(x);
  if (storage.has_memory()) return;
  storage.data = allocate(storage.device, static_cast<size_t>(storage.bytes), storage.tag);
}

void convert_part_(const Tensor& x, DType dtype) {
  check_alone("convert_part_", x);
  Storage& before = storage_of(x);
  const int64_t bytes = x.numel() * size_of(dtype);
  Reference<Storage> now(new Storage(before.device, bytes, std::make_unique<Absence>()));
  now->tag = before.tag;
  now->version = before.version + 1;
  const MemoryScope memory(before.tag);
  now->absence->keep_away(before.absence->refusal());
  const KeptPart& part = before.absence->part;
  now->absence->part = {untracked::cast(part.elements, dtype), part.range};
  x.body()->storage = std::move(now);
  x.body()->dtype = dtype;
}

}  // namespace booster
