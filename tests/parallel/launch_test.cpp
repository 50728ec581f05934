// The meaning of each launcher's variables, and the errors for invalid ones.
#include <doctest/doctest.h>

#include "parallel/mesh.h"
#include "platform/threads.h"
#include "tests/parallel/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

using namespace booster;

namespace {

using Variables = std::map<std::string, std::string>;

const char* const known[] = {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "BOOSTER_JOB",
                             "BOOSTER_RENDEZVOUS",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_NODEID",
                             "SLURM_TASKS_PER_NODE",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_NODELIST",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID"};

World world_of(const Variables& variables) {
  for (const char* name : known) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  struct Restore {
    ~Restore() {
      for (const char* name : known) unsetenv(name);
    }
  } restore;
  return launch_from_env();
}

std::string refusal_of(const Variables& variables) {
  try {
    world_of(variables);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

void check_world(const Variables& variables, int rank, int size, int local_rank, int local_size) {
  const World world = world_of(variables);
  CAPTURE(world.launcher);
  CHECK(world.rank == rank);
  CHECK(world.size == size);
  CHECK(world.local_rank == local_rank);
  CHECK(world.local_size == local_size);
}

const Variables torchrun = {{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

}  // namespace

TEST_CASE("a process without a launcher is alone") {
  check_world({}, 0, 1, 0, 1);
  CHECK(world_of({}).group().size() == 1);
  check_world({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}, 0, 1, 0, 1);  // inside salloc
  check_world({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}, 0, 1, 0,
              1);  // sbatch
}

TEST_CASE("each launcher's variables are understood") {
  check_world(torchrun, 5, 8, 1, 4);
  check_world({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, 1, 2, 1, 2);
  check_world({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
              3, 4, 1, 2);
  check_world({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, 1, 2, 1, 2);
  check_world({{"SLURM_PROCID", "6"},
               {"SLURM_NTASKS", "7"},
               {"SLURM_LOCALID", "2"},
               {"SLURM_NODEID", "2"},
               {"SLURM_TASKS_PER_NODE", "2(x2),3"},
               {"SLURM_JOB_ID", "7"},
               {"SLURM_STEP_ID", "0"}},
              6, 7, 2, 3);
  check_world({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}}, 1, 2, 1, 2);
}

TEST_CASE("the run tool inside a Slurm job counts, not the job") {
  auto variables = torchrun;
  variables["SLURM_PROCID"] = "0";
  variables["SLURM_NTASKS"] = "1";
  check_world(variables, 5, 8, 1, 4);
}

TEST_CASE("ranks on several machines meet at rank 0's, those on one in a folder of it") {
  CHECK(world_of(torchrun).place == "tcp://node0:29500");
  CHECK(world_of(with(torchrun, "MASTER_ADDR", "fd00::1")).place == "tcp://[fd00::1]:29500");
  CHECK(world_of(with(torchrun, "MASTER_ADDR", "[fd00::1]")).place == "tcp://[fd00::1]:29500");
  CHECK(world_of(with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "True")).place ==
        "tcp://node0:29501");
  CHECK(world_of(with(torchrun, "BOOSTER_RENDEZVOUS", "tcp://a:1")).place == "tcp://a:1");
  CHECK(world_of(with(torchrun, "LOCAL_WORLD_SIZE", "8")).place.starts_with("/"));
  CHECK(refusal_of(with(torchrun, "MASTER_PORT", "0")) ==
        "MASTER_PORT: want a number from 1 to 65534; got '0'");
  // Without LOCAL_WORLD_SIZE, rank 0's address decides.
  const Variables few = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  CHECK(world_of(few).place.starts_with("/"));
  CHECK(world_of(with(few, "MASTER_ADDR", "localhost")).place.starts_with("/"));
  CHECK(world_of(with(few, "MASTER_ADDR", "127.0.0.1")).place.starts_with("/"));
  CHECK(world_of(with(few, "MASTER_ADDR", "job-0.pods")).place == "tcp://job-0.pods:29500");

  const Variables slurm = {{"SLURM_PROCID", "1"},  {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                           {"SLURM_JOB_ID", "7"},  {"SLURM_STEP_ID", "0"}};
  const auto place = [&](const char* nodes) {
    return world_of(with(slurm, "SLURM_STEP_NODELIST", nodes)).place;
  };
  CHECK(place("gpu[03-05,9],login").starts_with("tcp://gpu03:2"));
  CHECK(place("a,b[1-2]").starts_with("tcp://a:2"));
  CHECK(place("n[7,9]").starts_with("tcp://n7:2"));
  CHECK(place("foo-[10-20]-[01-02]").starts_with("tcp://foo-10-01:2"));
  CHECK(place("gpu[03-05]") == place("gpu[03-05]"));
  CHECK(place("a") !=
        world_of(with(with(slurm, "SLURM_STEP_NODELIST", "a"), "SLURM_STEP_ID", "1")).place);
}

TEST_CASE("rank: has no address" * doctest::skip()) {
  CHECK_THROWS_WITH_AS(launch_from_env().group(), doctest::Contains("MASTER_ADDR: is not set"),
                       Error);
}
TEST_CASE("ranks on several machines that do not know rank 0's say so when they meet") {
  const std::map<std::string, std::string> two_machines = {
      {"LOCAL_WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"BOOSTER_RENDEZVOUS", ""}};
  CHECK(failures(Ranks("rank: has no address", 2, two_machines).wait()) == "");
}

TEST_CASE("a job is what its launcher or BOOSTER_JOB calls it, else what runs where") {
  CHECK(world_of(with(torchrun, "TORCHELASTIC_RUN_ID", "a7")).job == "8 ranks of job a7");
  const std::string plain = world_of(torchrun).job;
  CHECK(plain.starts_with("8 ranks of /"));
  CHECK(plain.find("parallel_test") != std::string::npos);
  CHECK(plain.ends_with(" in " + std::filesystem::current_path().string()));
  CHECK(world_of(with(torchrun, "TORCHELASTIC_RUN_ID", "none")).job == plain);
  CHECK(world_of(with(torchrun, "WORLD_SIZE", "9")).job != plain);
  CHECK(world_of(with(torchrun, "SLURM_JOB_ID", "7")).job == plain);  // two may share a Slurm job
  const Variables slurm = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};
  CHECK(world_of(slurm).job == "2 ranks of job 7.0");
  CHECK(world_of(with(slurm, "BOOSTER_JOB", "mine\n")).job == "2 ranks of job mine\\n");
  CHECK(world_of({}).job == "");
}

TEST_CASE("wrong values are errors that name the variable") {
  CHECK(refusal_of(with(torchrun, "RANK", "8")) == "RANK: want less than WORLD_SIZE = 8; got 8");
  CHECK(refusal_of(with(torchrun, "RANK", "-1")) ==
        "RANK: want a number from 0 to 1048576; got '-1'");
  CHECK(refusal_of(with(torchrun, "RANK", "5x")) ==
        "RANK: want a number from 0 to 1048576; got '5x'");
  CHECK(refusal_of(with(torchrun, "WORLD_SIZE", "0")) ==
        "WORLD_SIZE: want a number from 1 to 1048576; got '0'");
  CHECK(refusal_of(with(torchrun, "WORLD_SIZE", "99999999999")) ==
        "WORLD_SIZE: want a number from 1 to 1048576; got '99999999999'");
  CHECK(refusal_of(with(torchrun, "LOCAL_RANK", "4")) ==
        "LOCAL_RANK: want less than LOCAL_WORLD_SIZE = 4; got 4");
  CHECK(refusal_of(with(torchrun, "LOCAL_WORLD_SIZE", "9")) ==
        "LOCAL_WORLD_SIZE: want at most WORLD_SIZE = 8; got 9");
  CHECK(refusal_of(with(torchrun, "LOCAL_RANK", ""))
            .starts_with("LOCAL_RANK: is not set although LOCAL_WORLD_SIZE is"));
  CHECK(refusal_of(with(torchrun, "MASTER_PORT", "65536")) ==
        "MASTER_PORT: want a port from 0 to 65535; got '65536'");
  CHECK(refusal_of({{"RANK", "0"}}).starts_with("WORLD_SIZE: is not set although RANK is"));
  CHECK(refusal_of({{"WORLD_SIZE", "2"}}).starts_with("RANK: is not set although WORLD_SIZE is"));
  CHECK(refusal_of({{"LOCAL_RANK", "0"}}).starts_with("LOCAL_RANK: is set to '0', but RANK"));
  CHECK(
      refusal_of({{"OMPI_COMM_WORLD_RANK", "0"}}).starts_with("OMPI_COMM_WORLD_SIZE: is not set"));
  CHECK(refusal_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_TASKS_PER_NODE", "x"}})
            .starts_with("SLURM_TASKS_PER_NODE: no tasks for node"));
  CHECK(refusal_of({{"SLURM_PROCID", "0"},
                    {"SLURM_NTASKS", "2"},
                    {"SLURM_TASKS_PER_NODE", "1(x2)"},
                    {"SLURM_NODELIST", "gpu[1-2"}})
            .starts_with("SLURM_NODELIST: a bracket is not closed, or holds something other than "
                         "numbers, at character 8; got 'gpu[1-2'"));
}

TEST_CASE("processes on one machine share its processors") {
  using kernels::threads_of_share;
  CHECK(threads_of_share(1, 64, 64) == 64);
  CHECK(threads_of_share(4, 64, 64) == 16);
  CHECK(threads_of_share(3, 64, 64) == 21);
  CHECK(threads_of_share(4, 2, 2) == 1);
  CHECK(threads_of_share(4, 4, 4) == 1);     // a container with 4 of the machine's processors
  CHECK(threads_of_share(4, 16, 64) == 16);  // a launcher bound each rank to a quarter
  CHECK(threads_of_share(4, 32, 64) == 16);  // or to one of two sockets
  CHECK(threads_of_share(1 << 20, 4096, 4096) == 1);
}

TEST_CASE("ranks that nobody gave a number of threads divide the cores; others keep theirs") {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto threads = [](const Variables& variables, int chosen) {
    int count = 0;
    std::thread([&] {  // each thread has its own thread count
      if (chosen > 0) kernels::set_thread_count(chosen);
      world_of(variables);
      count = kernels::thread_count();
    })
        .join();
    return count;
  };
  const Variables together = {{"RANK", "1"}, {"WORLD_SIZE", "1000"}, {"MASTER_ADDR", "127.0.0.1"}};
  const Variables apart = {{"RANK", "1"}, {"WORLD_SIZE", "1000"}, {"MASTER_ADDR", "node0"}};
  const Variables one_each = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "1000"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  CHECK(threads(together, 3) == 3);
  if (std::getenv("OMP_NUM_THREADS")) return;
  CHECK(threads(together, 0) == 1);
  CHECK(threads(apart, 0) == cores);  // the number of ranks on this machine is unknown
  CHECK(threads(one_each, 0) == cores);
}

TEST_CASE("a rank that the run tool started has printed its lines when it is killed") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(stdout);  // the child must not print it again
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    setenv("BOOSTER_NOTES", "none", 1);
    launch_from_env();
    std::printf("step 1\nstep");
    kill(getpid(), SIGKILL);
  }
  close(ends[1]);
  waitpid(child, nullptr, 0);
  char text[64] = {};
  const ssize_t got = read(ends[0], text, sizeof text);
  close(ends[0]);
  CHECK(std::string(text, static_cast<size_t>(std::max<ssize_t>(got, 0))) == "step 1\n");
}
