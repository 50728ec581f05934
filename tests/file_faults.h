// Makes the library's file operations fail, in tests. A process that a test starts sets its own
// faults. Thread-safe.
#pragma once

#include <cstdint>

namespace booster::test {

// Makes the n-th file operation from now on (create, write, fsync, rename) fail with `error`. If
// `error` is 0, kills the process there instead. n = 0 turns this off.
void fail_file_operation(int64_t n, int error);
// Makes the n-th reading operation from now on (list, stat, open, read) fail with `error`. n = 0
// turns this off.
void fail_file_read(int64_t n, int error);
// Makes every file operation from now on take this long, as on a slow disk.
void delay_file_operations(int milliseconds);
// Behaves as on a file system that cannot swap folders.
void forbid_exchange(bool forbidden);

}  // namespace booster::test
