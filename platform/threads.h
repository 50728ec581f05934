// The number of computing threads. Thread-safe.
#pragma once

namespace booster::kernels {

// Threads of the kernels' parallel loops (and of oneDNN) started by the calling thread.
int thread_count();
void set_thread_count(int threads);

// Divides the processors among the processes of a job on this machine, in the calling thread. Does
// nothing where OMP_NUM_THREADS or set_thread_count has decided.
void share_processors(int processes);

// The threads of each of `processes` that may use `usable` of the machine's processors each. A
// launcher that gives each its own (mpirun, srun) has divided them already.
int threads_of_share(int processes, int usable, int machine);

}  // namespace booster::kernels
