// The number of computing threads. Thread-safe.
#pragma once

namespace booster::kernels {

// Returns the threads of parallel loops of the kernels (and oneDNN) that the calling thread starts.
int thread_count();
void set_thread_count(int threads);
// Throws if OMP_NUM_THREADS asks for more threads than the kernels may have: libgomp would crash.
void check_thread_setting();

// Sets the calling thread's number while it lives.
class ThreadCountScope {
 public:
  explicit ThreadCountScope(int threads);
  ~ThreadCountScope();
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int before_;
};

// Divides the processors among the processes of a job on this machine, in the calling thread. Does
// nothing if OMP_NUM_THREADS or set_thread_count has set the number.
void share_processors(int processes);

// Returns the threads of each of `processes`, if each may use `usable` of the machine's processors.
// Launchers that give each process its own (mpirun, srun) have divided them already.
int threads_of_share(int processes, int usable, int machine);

}  // namespace booster::kernels
