// Certificates and keys for tests of TLS, as files in PEM format.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <memory>
#include <string>

namespace ddprun::test {

struct CertificateWish {
  std::string names{};  ///< subject alternative names in OpenSSL's notation: "IP:127.0.0.1,DNS:a"
  long from_s = -60;    ///< validity, relative to now
  long until_s = 24 * 60 * 60;
  bool has_pass_phrase = false;  ///< path of the key
};

/// Paths of the files of a certificate.
struct Certificate {
  std::string certificate;
  std::string key;  ///< mode 0600
};

class Authority {
 public:
  /// Creates files in `folder`, which must outlive this, with `name` as prefix.
  Authority(const TemporaryFolder& folder, const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  /// Path of the authority's own certificate.
  const std::string& file() const { return file_; }

  Certificate issue(const std::string& name, const CertificateWish& wish = {});

 private:
  class Impl;
  const TemporaryFolder& folder_;
  const std::string name_;
  std::string file_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::test
