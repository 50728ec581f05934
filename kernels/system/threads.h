// The number of computing threads, and how they wait for each other. Thread-safe.
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

// Makes waiting threads sleep after three milliseconds, as libgomp's do: libomp, which clang has,
// spins for 200 at the end of every parallel loop. Called at the first use of a kernel; does
// nothing if KMP_BLOCKTIME or OMP_WAIT_POLICY is set.
//
// If all processors compute and anything else needs one (loader threads, another rank, another
// process), spinning keeps it busy: a ViT step on a machine with two processors and a load of eight
// took 7 times as long as with OMP_WAIT_POLICY=passive. libgomp cannot be told at run time.
void shorten_waiting();

}  // namespace booster::kernels
