// A list of hosts as Slurm writes it.
#include "parallel/host_list.h"
#include "tests/fuzz/target.h"

using namespace booster;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto hosts = slurm_hosts(fuzz::text_of(data, size), "SLURM_NODELIST");
    fuzz::promise(!hosts.empty(), "a list has names");
    for (const std::string& host : hosts)
      fuzz::promise(!host.empty() && host.find_first_of("[], \n") == host.npos,
                    "a name has no brackets, commas and blanks");
  } catch (const Error& error) {
    fuzz::promise(fuzz::is_plain(error.what()), "errors are plain text");
  }
  return 0;
}
