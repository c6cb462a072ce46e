#include "rendezvous/security/tls.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/security/private_file.hpp"
#include "rendezvous/security/tls_library.hpp"
#include <ddprun/error.hpp>

#include <openssl/sslerr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::security {

namespace {

/// A record of TLS has at most so many bytes.
constexpr std::size_t kRecordBytes = std::size_t{16} << 10;

/// Why a call of this thread has failed, in OpenSSL's words.
struct Failure {
  int reason = 0;
  std::string text = "unknown error";
};

Failure take_failure(const TlsLibrary& ssl) {
  Failure failure;
  const auto code = ssl.ERR_get_error();  // the first one; others follow from it
  ssl.ERR_clear_error();
  if (code == 0) return failure;
  failure.reason = ERR_GET_REASON(code);
  const char* text = ssl.ERR_reason_error_string(code);
  failure.text = text != nullptr ? text : "error " + std::to_string(code);
  return failure;
}

/// OpenSSL would ask for a pass phrase at the terminal.
int give_no_pass_phrase(char* /*into*/, int /*size*/, int /*is_written*/, void* /*data*/) {
  return 0;
}

[[noreturn]] void refuse_tls_file(const std::string& origin, const std::string& why) {
  throw Error(Errc::usage, origin + ": " + why);
}

/// OpenSSL would wait for a writer of a pipe.
void require_readable(const std::string& path, const std::string& origin) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0) {
    throw_system_error(origin, errno);
  }
  if (!S_ISREG(status.st_mode)) refuse_tls_file(origin, "is not a regular file");
}

/// An address cannot be the name in a request for a certificate (RFC 6066).
bool is_address(const TlsLibrary& ssl, SSL* session, const std::string& host) {
  return ssl.X509_VERIFY_PARAM_set1_ip_asc(ssl.SSL_get0_param(session), host.c_str()) == 1;
}

}  // namespace

class TlsContext::Impl {
 public:
  Impl(const TlsFiles& files, const std::string& option)
      : files_(files), context_(ssl_.SSL_CTX_new(ssl_.TLS_client_method())) {
    if (context_ == nullptr) throw Error(Errc::system, "TLS: " + take_failure(ssl_).text);
    try {
      configure(option);
    } catch (...) {
      ssl_.SSL_CTX_free(context_);
      throw;
    }
  }
  ~Impl() { ssl_.SSL_CTX_free(context_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const TlsLibrary& library() const { return ssl_; }
  SSL_CTX* get() const { return context_; }
  const TlsFiles& files() const { return files_; }

 private:
  void configure(const std::string& option) {
    ssl_.ERR_clear_error();
    if (ssl_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1) {
      throw Error(Errc::system, "TLS: version 1.2 cannot be required: " + take_failure(ssl_).text);
    }
    ssl_.SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    ssl_.SSL_CTX_set_default_passwd_cb(context_, &give_no_pass_phrase);
    if (files_.authorities.empty()) {
      ssl_.SSL_CTX_set_default_verify_paths(context_);
    } else {
      load_authorities(option + "cacert=" + files_.authorities);
    }
    if (!files_.certificate.empty()) load_certificate(option);
  }

  void load_authorities(const std::string& origin) {
    require_readable(files_.authorities, origin);
    if (ssl_.SSL_CTX_load_verify_file(context_, files_.authorities.c_str()) == 1) return;
    refuse_tls_file(origin, "holds no certificates (" + take_failure(ssl_).text +
                                "); give a file in PEM format");
  }

  void load_certificate(const std::string& option) {
    const auto& path = files_.certificate;
    const auto origin = option + "cert=" + path;
    require_readable(path, origin);
    if (ssl_.SSL_CTX_use_certificate_chain_file(context_, path.c_str()) != 1) {
      refuse_tls_file(origin, "holds no certificate (" + take_failure(ssl_).text +
                                  "); give a file in PEM format");
    }
    load_key(files_.key.empty() ? path : files_.key,
             files_.key.empty() ? origin : option + "key=" + files_.key);
  }

  /// The mode of the file counts only if there is a key in it.
  void load_key(const std::string& path, const std::string& origin) {
    require_readable(path, origin);
    if (ssl_.SSL_CTX_use_PrivateKey_file(context_, path.c_str(), SSL_FILETYPE_PEM) != 1) {
      const auto problem =
          "holds no key of the certificate that can be read (" + take_failure(ssl_).text + ")";
      const std::string remedy =
          files_.key.empty() ? ", and key is not given; add key=FILE," : "; give one";
      refuse_tls_file(origin, problem + remedy + " in PEM format and without a pass phrase");
    }
    require_private_file(path, origin);
    if (ssl_.SSL_CTX_check_private_key(context_) != 1) {
      refuse_tls_file(origin, "is not the key of the certificate; give the key that belongs to it");
    }
  }

  const TlsLibrary& ssl_ = tls_library();
  const TlsFiles files_;
  SSL_CTX* const context_;
};

TlsContext::TlsContext(const TlsFiles& files, const std::string& option)
    : impl_(std::make_unique<Impl>(files, option)) {}

TlsContext::~TlsContext() = default;

class TlsSession::Impl {
 public:
  Impl(std::shared_ptr<const TlsContext> context, const std::string& host)
      : context_(std::move(context)),
        ssl_(context_->impl_->library()),
        host_(host),
        session_(ssl_.SSL_new(context_->impl_->get())),
        incoming_(ssl_.BIO_new(ssl_.BIO_s_mem())),
        outgoing_(ssl_.BIO_new(ssl_.BIO_s_mem())) {
    if (session_ == nullptr || incoming_ == nullptr || outgoing_ == nullptr) {
      release();
      throw Error(Errc::system, "TLS: " + take_failure(ssl_).text);
    }
    ssl_.SSL_set_bio(session_, incoming_, outgoing_);  // which owns them now
    ssl_.SSL_set_connect_state(session_);
    expect_host();
  }
  ~Impl() { ssl_.SSL_free(session_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto part = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
      const int taken = ssl_.BIO_write(incoming_, bytes.data(), part);
      if (taken <= 0) return fail("out of memory");
      bytes.remove_prefix(static_cast<std::size_t>(taken));
    }
  }

  std::string outgoing() {
    std::string bytes(ssl_.BIO_ctrl_pending(outgoing_), '\0');
    if (bytes.empty()) return bytes;
    const int got = ssl_.BIO_read(outgoing_, bytes.data(), static_cast<int>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(std::max(got, 0)));
    return bytes;
  }

  bool shake_hands() {
    if (!problem_.empty()) return false;
    ssl_.ERR_clear_error();
    const int result = ssl_.SSL_do_handshake(session_);
    return result == 1 || check(result);
  }

  void write(std::string_view bytes) {
    if (bytes.empty() || !problem_.empty()) return;
    ssl_.ERR_clear_error();
    check(ssl_.SSL_write(session_, bytes.data(), static_cast<int>(bytes.size())));
  }

  std::string read() {
    std::string bytes;
    std::array<char, kRecordBytes> part;
    while (problem_.empty() && !has_ended_) {
      ssl_.ERR_clear_error();
      const int got = ssl_.SSL_read(session_, part.data(), static_cast<int>(part.size()));
      if (got <= 0) {
        check(got);
        break;
      }
      bytes.append(part.data(), static_cast<std::size_t>(got));
    }
    return bytes;
  }

  bool has_ended() const { return has_ended_; }
  const std::string& problem() const { return problem_; }

 private:
  /// Without a name to compare, OpenSSL would accept the certificate of any server.
  void expect_host() {
    if (is_address(ssl_, session_, host_)) return;
    std::string name = host_;
    const bool is_compared = !name.empty() && ssl_.SSL_set1_host(session_, name.c_str()) == 1;
    const bool is_sent = ssl_.SSL_ctrl(session_, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                       TLSEXT_NAMETYPE_host_name, name.data()) == 1;
    if (!is_compared || !is_sent) {
      fail("its name '" + printable(host_) + "' cannot be in a certificate; give another one");
    }
  }

  void release() {
    ssl_.BIO_free(incoming_);
    ssl_.BIO_free(outgoing_);
    ssl_.SSL_free(session_);
  }

  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  /// Always false, for a call that has not come to its end.
  bool check(int result) {
    switch (ssl_.SSL_get_error(session_, result)) {
      case SSL_ERROR_NONE:
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        break;
      case SSL_ERROR_ZERO_RETURN:
        has_ended_ = true;
        break;
      default:
        const auto failure = take_failure(ssl_);
        const auto verified = ssl_.SSL_get_verify_result(session_);
        fail(verified == X509_V_OK ? describe(failure) : describe_certificate(verified));
    }
    return false;
  }

  std::string describe_certificate(long error) const {
    const auto& authorities = context_->impl_->files().authorities;
    switch (error) {
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "its certificate is not for " + host_ +
               "; give a name or address that is in the certificate";
      case X509_V_ERR_CERT_HAS_EXPIRED:
        return "its certificate has expired; renew it, or set this machine's clock";
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return "its certificate is not valid yet; set this machine's clock";
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "its certificate is not signed by an authority " +
               (authorities.empty()
                    ? std::string("that this system knows; give its own (cacert)")
                    : "in " + authorities + "; give the one that signed it (cacert)");
      default:
        return std::string("its certificate is not accepted: ") +
               ssl_.X509_verify_cert_error_string(error) + "; correct the certificate";
    }
  }

  std::string describe(const Failure& failure) const {
    const bool has_certificate = !context_->impl_->files().certificate.empty();
    switch (failure.reason) {
      case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
      case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return has_certificate
                   ? "it does not accept this node's certificate (" + failure.text +
                         "); give one that its authority has signed for clients (cert, key)"
                   : "it requires a certificate of its clients; give one (cert, key)";
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_HTTP_REQUEST:
        return "it does not use TLS; give protocol=http, or the port at which it uses TLS";
      case SSL_R_UNSUPPORTED_PROTOCOL:
      case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "it has no TLS 1.2 or newer; upgrade it";
      default:
        return "TLS failed: " + failure.text + "; check that etcd is at this address";
    }
  }

  const std::shared_ptr<const TlsContext> context_;
  const TlsLibrary& ssl_;
  const std::string host_;
  SSL* const session_;
  BIO* const incoming_;
  BIO* const outgoing_;
  std::string problem_;
  bool has_ended_ = false;
};

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, const std::string& host)
    : impl_(std::make_unique<Impl>(std::move(context), host)) {}

TlsSession::~TlsSession() = default;

void TlsSession::feed(std::string_view bytes) {
  impl_->feed(bytes);
}

std::string TlsSession::outgoing() {
  return impl_->outgoing();
}

bool TlsSession::shake_hands() {
  return impl_->shake_hands();
}

void TlsSession::write(std::string_view bytes) {
  impl_->write(bytes);
}

std::string TlsSession::read() {
  return impl_->read();
}

bool TlsSession::has_ended() const {
  return impl_->has_ended();
}

const std::string& TlsSession::problem() const {
  return impl_->problem();
}

}  // namespace ddprun::security
