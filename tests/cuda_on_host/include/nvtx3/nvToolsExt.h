// The subset of NVTX that the CUDA module uses; tests/cuda_on_host/nvtx.cpp records the calls.
#pragma once

int nvtxRangePushA(const char* message);
int nvtxRangePop();
