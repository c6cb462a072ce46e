// SHA-256 and HMAC: published vectors, and OpenSSL's results for all lengths around a block.
#include "rendezvous/base/hmac.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/security/crypto.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>

namespace hmac_test {

using namespace ddprun;

namespace {

std::string hex(const Digest& digest) {
  return hexadecimal(bytes_of(digest));
}

}  // namespace

TEST_SUITE("hmac") {
  TEST_CASE("hmac: SHA-256 digests match FIPS 180-4") {
    CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hex(sha256(std::string(1'000'000, 'a'))) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }

  TEST_CASE("hmac: HMAC digests match RFC 4231") {
    CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hex(hmac_sha256(std::string(131, '\xaa'),
                          "Test Using Larger Than Block-Size Key - Hash Key First")) ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  }

  TEST_CASE("hmac: HMAC digests of up to three blocks match OpenSSL") {
    std::array<char, security::kDigestBytes> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(7 * i + 250);
    const security::Key key(bytes);
    std::string message;
    for (int length = 0; length <= 192; ++length) {
      CAPTURE(length);
      CHECK(bytes_of(hmac_sha256(key.bytes(), message)) == security::authenticate(key, message));
      message += static_cast<char>(length * 31);
    }
  }

  TEST_CASE("hmac: digests compare equal only if all bytes are equal") {
    const Digest digest = sha256("abc");
    CHECK(are_equal(digest, sha256("abc")));
    for (std::size_t i = 0; i < digest.size(); ++i) {
      Digest other = digest;
      other[i] ^= 0x80U;
      CHECK_FALSE(are_equal(digest, other));
    }
  }
}

}  // namespace hmac_test
