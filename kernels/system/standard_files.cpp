#include "kernels/system/standard_files.h"

#include <cerrno>

#include <fcntl.h>

namespace booster::kernels {

// open() takes the lowest descriptor that is free.
void open_standard_files() {
  for (int file = 0; file <= 2; ++file)
    if (fcntl(file, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
}

}  // namespace booster::kernels
