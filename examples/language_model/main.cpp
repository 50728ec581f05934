// Trains a language model as described by a JSON file, from new weights or from a folder of
// transformers:
//   build/examples/language_model --config examples/language_model_gpt2.json [--set key=value ...]
// With --evaluate, --choices or --generate it uses the model that the same command has trained.
#include "examples/language_model/inference.h"
#include "examples/language_model/program_config.h"
#include "examples/language_model/trainer.h"

int main(int argc, char** argv) {
  const auto config = booster::Config::from_args(argc, argv, language_model::program_config());
  const booster::World world = booster::launch_from_env();
  if (language_model::infer(config, world)) return 0;
  return language_model::Trainer(config, world).run();
}
