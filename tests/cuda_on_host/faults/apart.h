// Runs a part of a test in a separate process, because faults persist for the life of a process.
#pragma once

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace cuda_on_host::faults {

struct Outcome {
  enum { right, wrong, died } how;
  std::string words;
};

// `body` returns whether its results are correct; `words` is its output on stderr.
template <class Body>
Outcome run_apart(int seed, Body&& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    setenv("CUDA_ON_HOST_SEED", std::to_string(seed).c_str(), 1);
    for (const int signal : {SIGSEGV, SIGABRT}) std::signal(signal, SIG_DFL);  // doctest's
    int status = 2;
    try {
      status = body() ? 0 : 1;
    } catch (const std::exception&) {  // already printed
    }
    std::_Exit(status);
  }
  close(ends[1]);
  std::string words;
  char piece[4096];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) words.append(piece, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) return {Outcome::died, words};
  return {WEXITSTATUS(status) == 0 ? Outcome::right : Outcome::wrong, words};
}

}  // namespace cuda_on_host::faults
