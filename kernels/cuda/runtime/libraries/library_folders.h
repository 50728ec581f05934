// Folders where NVIDIA's libraries lie that the system does not search.
#pragma once

#include <string>
#include <vector>

namespace booster::kernels::cuda {

// What BOOSTER_CUDA_LIBRARIES names (folders between colons; of a Python environment its
// site-packages), the toolkit of CUDA_HOME or CUDA_PATH, the Python environment of VIRTUAL_ENV or
// CONDA_PREFIX, toolkits in /usr/local: those that exist, in this order.
std::vector<std::string> library_folders();

}  // namespace booster::kernels::cuda
