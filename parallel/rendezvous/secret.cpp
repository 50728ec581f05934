#include "parallel/rendezvous/secret.h"

#include "platform/environment.h"
#include "platform/error.h"
#include "platform/libcrypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace booster {

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t n = getrandom(bytes.data() + done, count - done, 0);
    if (n < 0 && errno != EINTR) fail_run("no random bytes: {}", std::strerror(errno));
    if (n > 0) done += static_cast<size_t>(n);
  }
  return bytes;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string hmac_sha256(std::string_view secret, std::string_view text) {
  keep_libcrypto();
  std::string code(32, '\0');
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(code.data()), &size);
  if (!done || size != code.size()) fail_run("HMAC-SHA256 failed in libcrypto");
  return code;
}

bool is_same(std::string_view proof, std::string_view expected) {
  return proof.size() == expected.size() &&
         CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

std::string proof_of(std::string_view secret, std::string_view purpose, std::string_view nonce) {
  return hmac_sha256(secret, fmt::format("booster 1|{}|{}|{}", purpose.size(), purpose, nonce));
}

std::string shared_secret() {
  std::string text = environment::text("BOOSTER_SECRET");
  constexpr size_t shortest = 16;
  check(!text.empty(),
        "BOOSTER_SECRET: is not set; ranks on several machines need it to recognise each other; "
        "want the same text on all of them, such as the output of `openssl rand -hex 32`");
  check(text.size() >= shortest, "BOOSTER_SECRET: got {} characters, want at least {}", text.size(),
        shortest);
  return text;
}

}  // namespace booster
