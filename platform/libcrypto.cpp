#include "platform/libcrypto.h"

#include "platform/error.h"

#include <openssl/crypto.h>

namespace booster {

void keep_libcrypto() {
  static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (!kept) fail_run("libcrypto does not start");
}

}  // namespace booster
