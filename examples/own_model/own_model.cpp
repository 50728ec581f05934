// A custom model in a shared library. To use it in a config:
//   "booster": {"libraries": ["build/examples/libown_model.so"]},
//   "model": {"name": "patch_encoder", "features": 96}
#include "examples/own_model/patch_encoder.h"

BOOSTER_LIBRARY {
  using namespace booster;
  using own_model::EncoderOptions;
  const ValueRange size = at_least(1);
  const FieldTable<EncoderOptions> table = {
      field("num_classes", &EncoderOptions::num_classes, size, "outputs of the classifier"),
      field("img_size", &EncoderOptions::img_size, size, "pixels a side"),
      field("patch_size", &EncoderOptions::patch_size, size, "pixels a side of a patch"),
      field("features", &EncoderOptions::features, size, "of each patch"),
      field("layers", &EncoderOptions::layers, size, "blocks"),
      field("heads", &EncoderOptions::heads, size, "of attention; they divide the features")};
  model_registry().add({.name = "patch_encoder",
                        .description = "attention over patches, the mean of which is classified",
                        .options = table.options(),
                        .make = [=](const OptionValues& values) -> Model {
                          return own_model::PatchEncoder(table.read(values));
                        },
                        .depth_option = "layers"});
}
