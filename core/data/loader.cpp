#include "core/data/loader.h"

#include "core/data/engine.h"
#include "platform/error.h"

namespace booster {

BadImagePolicy bad_image_policy(const std::string& name) {
  if (name == "fail") return BadImagePolicy::fail;
  if (name == "skip") return BadImagePolicy::skip;
  fail("on_bad_image: unknown policy; got '{}'{}", name, legal_names(name, {"fail", "skip"}));
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : engine_(new Engine(std::move(dataset), std::move(options)), [](Engine* engine) {
        if (engine->has_its_threads()) delete engine;
      }) {}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  check(engine_ != nullptr, "DataLoader: operator++ of an iterator without a loader");
  batch_.reset();  // before waiting, so that later batches can reuse its memory
  if (auto batch = engine_->next()) batch_ = std::make_shared<Batch>(std::move(*batch));
  return *this;
}

void DataLoader::prepare() { engine_.in("DataLoader.prepare").prepare(); }

DataLoader::Iterator DataLoader::begin() {
  engine_.in("DataLoader.begin").begin();
  Iterator first;
  first.engine_ = engine_;
  return ++first;
}

int64_t DataLoader::size() const { return engine_->batches(); }
const Dataset& DataLoader::dataset() const { return engine_->dataset(); }
const DataLoaderOptions& DataLoader::options() const { return engine_->options(); }
void DataLoader::set_epoch(uint64_t epoch) { engine_->load_state({epoch, 0}); }
LoaderState DataLoader::state() const { return engine_->state(); }
void DataLoader::load_state(LoaderState state) { engine_->load_state(state); }
int64_t DataLoader::counted() const { return engine_->counted(); }
double DataLoader::weight() const { return engine_->weight(); }
double DataLoader::wait_seconds() const { return engine_->wait_seconds(); }
std::vector<BadImage> DataLoader::bad_images() const { return engine_->bad_images(); }

}  // namespace booster
