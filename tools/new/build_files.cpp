#include "tools/new/project_files.h"

namespace booster {

// What is compiled with a precompiled header takes a third of the time: booster.h is large.
std::vector<ProjectFile> project_build_files() {
  return {{"CMakeLists.txt", R"(cmake_minimum_required(VERSION 3.16)
project(@NAME@ CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(booster 0.1 REQUIRED)

# All but the programs' main functions.
add_library(parts STATIC src/data.cpp src/model.cpp src/training.cpp)
target_include_directories(parts PUBLIC src)
target_link_libraries(parts PUBLIC booster::booster)
target_precompile_headers(parts PRIVATE <booster/booster.h>)

add_executable(train src/main.cpp)
target_link_libraries(train parts)
target_precompile_headers(train REUSE_FROM parts)

enable_testing()
add_executable(model_test tests/model_test.cpp)
target_link_libraries(model_test parts)
target_precompile_headers(model_test REUSE_FROM parts)
add_test(NAME model COMMAND model_test)
)"},
          {"meson.build", R"(project('@NAME@', 'cpp', meson_version: '>= 1.0',
  default_options: ['cpp_std=c++20', 'buildtype=release'])
booster = dependency('booster', version: '>= 0.1')

# All but the programs' main functions.
parts = static_library('parts', 'src/data.cpp', 'src/model.cpp', 'src/training.cpp',
  cpp_pch: 'src/pch/booster_pch.h', dependencies: booster)

executable('train', 'src/main.cpp', cpp_pch: 'src/pch/booster_pch.h', link_with: parts,
  dependencies: booster)

model_test = executable('model_test', 'tests/model_test.cpp', cpp_pch: 'src/pch/booster_pch.h',
  include_directories: 'src', link_with: parts, dependencies: booster)
test('model', model_test)
)"},
          {"src/pch/booster_pch.h", R"(// Meson compiles this header once for each program.
#include <booster/booster.h>
)"},
          {".gitignore", R"(/build*/
/out/
)"},
          {"README.md", R"(# @NAME@

A classifier that is trained with booster.

```sh
cmake -S . -B build && cmake --build build      # or: meson setup build && ninja -C build
ctest --test-dir build                          # or: meson test -C build
build/train --config config.json
booster run --nproc_per_node 2 build/train --config config.json
```

If booster is installed below a prefix of its own, add `-DCMAKE_PREFIX_PATH=PREFIX` for CMake, or
set `PKG_CONFIG_PATH` to the folder of `booster.pc` for Meson.

| file | holds |
|---|---|
| `src/model.h` | the model: replace it by yours |
| `src/data.h` | the samples: made up, replace them by yours |
| `src/training.h` | the config's section `train`, the training loop, the evaluation |
| `config.json` | precision, parallelism, optimizer, schedule; `build/train --help` lists all keys |
| `tests/model_test.cpp` | checks that the model learns, and that a predictor gives its outputs |

A run goes on from the newest checkpoint in `train.output_dir`.
)"},
          {"config.json", R"({
  "booster": { "plugin": "torch_ddp", "mixed_precision": "fp32" },
  "device": "cpu",
  "optimizer": { "name": "adamw", "lr": 0.01 },
  "lr_scheduler": { "name": "cosine_warmup", "warmup_steps": 10 },
  "train": { "epochs": 5, "batch_size": 64, "output_dir": "out" }
}
)"}};
}

}  // namespace booster
