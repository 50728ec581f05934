// How two processes show each other that they know the secret of a run, without sending it.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

// Bytes from the system's generator that nobody can guess.
std::string random_bytes(size_t count);
std::string hexadecimal(std::string_view bytes);
// HMAC-SHA256 (RFC 2104) of `text`, 32 bytes.
std::string hmac_sha256(std::string_view secret, std::string_view text);
// Takes as long whatever the difference is.
bool is_same(std::string_view proof, std::string_view expected);

// What both sides of a connection sign: who proves it, to whom and for what, and the other's random
// bytes, so that a proof that was overheard is good for nothing.
std::string proof_of(std::string_view secret, std::string_view purpose, std::string_view nonce);

// BOOSTER_SECRET, which ranks on several machines must share. Error if it is absent or shorter than
// 16 characters.
std::string shared_secret();

}  // namespace booster
