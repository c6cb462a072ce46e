#include "rendezvous/security/crypto.hpp"

#include <ddprun/error.hpp>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>

namespace ddprun::security {

namespace {

constexpr const char* kHash = "SHA256";

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

/// A library without these algorithms is not one that this program can work with.
void require(bool is_done, const char* what) {
  if (!is_done) throw Error(Errc::internal, std::string("OpenSSL: cannot compute ") + what);
}

/// OpenSSL takes what it only reads as if it wrote it.
OSSL_PARAM octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

OSSL_PARAM hash_name() {
  return OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(kHash), 0);
}

}  // namespace

void wipe(char* bytes, std::size_t count) {
  OPENSSL_cleanse(bytes, count);
}

Key derive_key(std::string_view secret, std::string_view salt, std::string_view info) {
  const std::unique_ptr<EVP_KDF, Free<&EVP_KDF_free>> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  require(kdf != nullptr, "HKDF");
  const std::unique_ptr<EVP_KDF_CTX, Free<&EVP_KDF_CTX_free>> context(EVP_KDF_CTX_new(kdf.get()));
  const OSSL_PARAM parameters[] = {hash_name(), octets(OSSL_KDF_PARAM_KEY, secret),
                                   octets(OSSL_KDF_PARAM_SALT, salt),
                                   octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::array<char, kDigestBytes> bytes{};
  require(context != nullptr &&
              EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(bytes.data()),
                             bytes.size(), parameters) == 1,
          "HKDF");
  Key key(bytes);
  wipe(bytes.data(), bytes.size());
  return key;
}

std::string authenticate(const Key& key, std::string_view message) {
  std::string tag(kDigestBytes, '\0');
  std::size_t bytes = 0;
  const auto* made =
      EVP_Q_mac(nullptr, "HMAC", nullptr, kHash, nullptr, key.bytes().data(), key.bytes().size(),
                reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                reinterpret_cast<unsigned char*>(tag.data()), tag.size(), &bytes);
  require(made != nullptr && bytes == tag.size(), "HMAC");
  return tag;
}

bool are_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ddprun::security
