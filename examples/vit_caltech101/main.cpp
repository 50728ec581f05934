// Trains a Vision Transformer, or another model, on a folder of images as described by a JSON file:
//   build/examples/vit_caltech101 --config examples/vit_caltech101.json [--set key=value ...]
// With --evaluate or --predict it uses the model that the same command has trained.
#include "examples/vit_caltech101/inference/inference.h"
#include "examples/vit_caltech101/program_config.h"
#include "examples/vit_caltech101/trainer.h"

int main(int argc, char** argv) {
  const booster::Config config = booster::Config::from_args(argc, argv, example::program_config());
  booster::check(!config.has("model.n_positions"),
                 "model.name: a model of texts; got {}, want one of images (language_model trains "
                 "it)",
                 config.get<std::string>("model.name"));
  const booster::World world = booster::launch_from_env();
  if (const auto code = example::infer(config, world)) return *code;
  return example::Trainer(config, world).run();
}
