// The example's use of its own config sections.
#include "examples/vit_caltech101/data/datasets.h"
#include "examples/vit_caltech101/program_config.h"

#include <doctest/doctest.h>

using namespace booster;

TEST_CASE("the example's section data reaches the loader") {
  const Config config = Config::from_text(
      R"({"data": {"batch_size": 7, "workers": 3, "on_bad_image": "skip"}, "train": {"seed": 9}})",
      "c", {}, example::program_config());
  const DataLoaderOptions loader = example::loader_options(config);
  CHECK(loader.batch_size == 7);
  CHECK(loader.workers == 3);
  CHECK(loader.seed == 9);
  CHECK(loader.on_bad_image == BadImagePolicy::skip);
  CHECK_FALSE(loader.shuffle);
}
