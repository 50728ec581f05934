// Lets two processes prove to each other that they know a run's secret, without sending it.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

// Returns unpredictable bytes from the system's generator.
std::string random_bytes(size_t count);
std::string hexadecimal(std::string_view bytes);
// Returns the HMAC-SHA256 (RFC 2104) of `text`, 32 bytes.
std::string hmac_sha256(std::string_view secret, std::string_view text);
// Takes the same time wherever the two differ.
bool is_same(std::string_view proof, std::string_view expected);

// Returns the text that both sides of a connection sign: the prover, the verifier, the purpose and
// the other side's random bytes. An overheard proof is therefore useless.
std::string proof_of(std::string_view secret, std::string_view purpose, std::string_view nonce);

// Returns BOOSTER_SECRET, which ranks on several machines must share. Throws if it is absent or
// shorter than 16 characters.
std::string shared_secret();

}  // namespace booster
