// Trains a Vision Transformer on Caltech101 as described by a JSON file:
//   build/examples/vit_caltech101 --config examples/vit_caltech101.json [--set key=value ...]
#include "examples/vit_caltech101/program_config.h"
#include "examples/vit_caltech101/trainer.h"

int main(int argc, char** argv) {
  const booster::Config config = booster::Config::from_args(argc, argv, example::program_config());
  const booster::World world = booster::launch_from_env();
  return example::Trainer(config, world).run();
}
