#include "platform/files/sha256.h"

#include "platform/error.h"
#include "platform/libcrypto.h"

#include <openssl/evp.h>

namespace booster {

namespace {

void check_done(int result) { check(result == 1, "sha256: libcrypto failed"); }

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = (keep_libcrypto(), EVP_MD_CTX_new());
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check_done(state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  check_done(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::digest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  check_done(EVP_DigestFinal_ex(state_->context, digest, &length));
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digest();
}

}  // namespace booster
