// How many threads compute, and how they wait for one another. Thread-safe.
#pragma once

namespace booster::kernels {

// Threads of the kernels' parallel loops (and of oneDNN) started by the calling thread.
int thread_count();
void set_thread_count(int threads);

// Makes waiting threads sleep after a microsecond rather than spin for three milliseconds.
//
// libgomp spins that long at the end of every parallel loop. Where all processors compute and
// anything else wants one (loader threads, another rank, a neighbour), the spinning takes it away:
// a ViT step on a machine with two processors and a load of eight took 7 times as long. libgomp
// has a short spin of its own for when it manages more threads than there are processors; a team of
// two that rests for the life of the program brings that about. Called at the first use of a
// kernel; does nothing where GOMP_SPINCOUNT or OMP_WAIT_POLICY is set.
void shorten_waiting();

}  // namespace booster::kernels
