// What the CUDA module uses of NVTX; tests/cuda_on_host/nvtx.cpp writes down what it is told.
#pragma once

int nvtxRangePushA(const char* message);
int nvtxRangePop();
