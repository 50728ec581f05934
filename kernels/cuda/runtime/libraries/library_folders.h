// Finds folders with NVIDIA's libraries that the system does not search.
#pragma once

#include <string>
#include <vector>

namespace booster::kernels::cuda {

// Returns the existing ones of, in this order: the folders in BOOSTER_CUDA_LIBRARIES
// (colon-separated; for a Python environment its site-packages), the toolkit of CUDA_HOME or
// CUDA_PATH, the Python environment of VIRTUAL_ENV or CONDA_PREFIX, toolkits in /usr/local.
std::vector<std::string> library_folders();

}  // namespace booster::kernels::cuda
