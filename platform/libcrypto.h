// libcrypto's lifetime. Thread-safe.
#pragma once

namespace booster {

// Keeps libcrypto usable until the process is gone. Call it before any other use of libcrypto:
// threads of ours hash until the program's last objects are destroyed, and libcrypto would clean
// itself up before that.
void keep_libcrypto();

}  // namespace booster
