// The files of a meeting place, read by rank 1 of two while rank 0 is alive. The input holds,
// separated by zero bytes: the file that names the run, rank 0's own file, a failure and a value.
// In the first, # stands for rank 0's process and @ for the meeting place.
#include "parallel/groups/meet.h"
#include "tests/fuzz/own_folder.h"

#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

using namespace booster;

namespace {

// Starts a process that holds the leader's lock as long as this process lives.
pid_t start_leader(const std::filesystem::path& place) {
  int ready[2];
  fuzz::promise(pipe(ready) == 0, "a pipe can be made");
  const pid_t leader = fork();
  if (leader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = open((place / "leader").c_str(), O_RDWR | O_CREAT, 0600);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    if (fcntl(file, F_SETLK, &lock) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  fuzz::promise(leader > 0 && read(ready[0], &byte, 1) == 1, "a leader can be started");
  close(ready[0]);
  return leader;
}

struct MeetingPlace {
  std::filesystem::path folder = fuzz::own_folder();
  pid_t leader = start_leader(folder);
  MeetingPlace() {
    setenv("BOOSTER_TIMEOUT", "0.02", 1);
    setenv("BOOSTER_JOB", "fuzz", 1);
  }
};

std::string expanded(std::string_view form, const MeetingPlace& place) {
  std::string text;
  for (const char letter : form) {
    if (letter == '#') text += std::to_string(place.leader);
    else if (letter == '@') text += place.folder.string();
    else text += letter;
  }
  return text;
}

// A reader that trusted a path would write and delete there, so only this target's own folder is
// allowed.
bool stays_inside(const std::string& text, const MeetingPlace& place) {
  const size_t path = text.find('/');
  if (path == text.npos) return text.find('.') == text.npos && text.find("run-") != text.npos;
  const std::string inside = place.folder.string() + "/run-";
  return text.compare(path, inside.size(), inside) == 0 && text.find("..") == text.npos;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MeetingPlace place;
  std::string_view rest = fuzz::text_of(data, size);
  const std::string leader = expanded(fuzz::take_part(rest), place);
  if (!stays_inside(leader, place)) return 0;
  const auto run = place.folder / "run-aaaaaa";
  std::filesystem::create_directory(run);
  chmod(run.c_str(), 0700);
  for (const char* file : {"current", "leader"}) fuzz::put_file(place.folder / file, leader);
  for (const char* file : {"rank-0", "failure", "value"})
    if (const std::string_view text = fuzz::take_part(rest); !text.empty())
      fuzz::put_file(run / file, text);
  fuzz::accepts([&] {
    const auto rendezvous = meet(place.folder, 1, 2);
    fuzz::accepts([&] { rendezvous->wait_for({0}); });
    fuzz::accepts([&] { rendezvous->get("value", {0}); });
    rendezvous->trouble({0});
    rendezvous->describe(0);
  });
  std::filesystem::remove_all(run);
  return 0;
}
