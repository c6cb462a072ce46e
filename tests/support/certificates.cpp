#include "tests/support/certificates.hpp"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace ddprun::test {

namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using X509Pointer = std::unique_ptr<X509, Free<&X509_free>>;

void require(bool is_done, const char* what) {
  if (!is_done) throw std::runtime_error(std::string("certificates: ") + what);
}

PrivateKey make_key() {
  PrivateKey key(EVP_EC_gen("P-256"));
  require(key != nullptr, "no key");
  return key;
}

void extend(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, value);
}

/// A certificate without names, dates and signature.
X509Pointer begin_certificate(const std::string& name, EVP_PKEY* key) {
  X509Pointer certificate(X509_new());
  require(certificate != nullptr, "no memory");
  std::uint32_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void finish(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, const CertificateWish& wish) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  X509_gmtime_adj(X509_getm_notBefore(certificate), wish.from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), wish.until_s);
  require(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "not signed");
}

/// Mode 0600.
class PemFile {
 public:
  explicit PemFile(const std::string& path)
      : file_(::fdopen(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "w")) {
    require(file_ != nullptr, path.c_str());
  }
  PemFile(const PemFile&) = delete;
  PemFile& operator=(const PemFile&) = delete;
  ~PemFile() { std::fclose(file_); }

  std::FILE* get() const { return file_; }

 private:
  std::FILE* file_;
};

}  // namespace

class Authority::Impl {
 public:
  explicit Impl(const std::string& name)
      : key(make_key()), certificate(begin_certificate(name, key.get())) {
    extend(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    extend(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
    finish(certificate.get(), certificate.get(), key.get(), {});
  }

  PrivateKey key;
  X509Pointer certificate;
};

Authority::Authority(const TemporaryFolder& folder, const std::string& name)
    : folder_(folder),
      name_(name),
      file_(folder / (name + ".pem")),
      impl_(std::make_unique<Impl>(name)) {
  const PemFile file(file_);
  require(PEM_write_X509(file.get(), impl_->certificate.get()) == 1, "not written");
}

Authority::~Authority() = default;

Certificate Authority::issue(const std::string& name, const CertificateWish& wish) {
  const Certificate issued{folder_ / (name_ + "-" + name + ".pem"),
                           folder_ / (name_ + "-" + name + ".key")};
  const auto key = make_key();
  const auto certificate = begin_certificate(name, key.get());
  X509* issuer = impl_->certificate.get();
  if (!wish.names.empty()) {
    extend(certificate.get(), issuer, NID_subject_alt_name, wish.names.c_str());
  }
  extend(certificate.get(), issuer, NID_authority_key_identifier, "keyid");
  finish(certificate.get(), issuer, impl_->key.get(), wish);
  const PemFile text(issued.certificate);
  const PemFile secret(issued.key);
  const EVP_CIPHER* cipher = wish.has_pass_phrase ? EVP_aes_256_cbc() : nullptr;
  std::string phrase = "pass phrase";
  require(PEM_write_X509(text.get(), certificate.get()) == 1 &&
              PEM_write_PrivateKey(secret.get(), key.get(), cipher, nullptr, 0, nullptr,
                                   phrase.data()) == 1,
          "not written");
  return issued;
}

}  // namespace ddprun::test
