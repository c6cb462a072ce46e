// The functions of OpenSSL's libssl and libcrypto that TLS needs, loaded at run time. All come from
// the shared libraries, even if the program contains a static libcrypto: objects of one cannot be
// passed to the other.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace ddprun::security {

/// Members are named after the functions.
struct TlsLibrary {
#define DDPRUN_TLS_FUNCTIONS(FUNCTION)         \
  FUNCTION(BIO_ctrl_pending)                   \
  FUNCTION(BIO_free)                           \
  FUNCTION(BIO_new)                            \
  FUNCTION(BIO_read)                           \
  FUNCTION(BIO_s_mem)                          \
  FUNCTION(BIO_write)                          \
  FUNCTION(ERR_clear_error)                    \
  FUNCTION(ERR_get_error)                      \
  FUNCTION(ERR_reason_error_string)            \
  FUNCTION(SSL_CTX_check_private_key)          \
  FUNCTION(SSL_CTX_ctrl)                       \
  FUNCTION(SSL_CTX_free)                       \
  FUNCTION(SSL_CTX_load_verify_file)           \
  FUNCTION(SSL_CTX_new)                        \
  FUNCTION(SSL_CTX_set_default_passwd_cb)      \
  FUNCTION(SSL_CTX_set_default_verify_paths)   \
  FUNCTION(SSL_CTX_set_verify)                 \
  FUNCTION(SSL_CTX_use_PrivateKey_file)        \
  FUNCTION(SSL_CTX_use_certificate_chain_file) \
  FUNCTION(SSL_ctrl)                           \
  FUNCTION(SSL_do_handshake)                   \
  FUNCTION(SSL_free)                           \
  FUNCTION(SSL_get0_param)                     \
  FUNCTION(SSL_get_error)                      \
  FUNCTION(SSL_get_verify_result)              \
  FUNCTION(SSL_new)                            \
  FUNCTION(SSL_read)                           \
  FUNCTION(SSL_set1_host)                      \
  FUNCTION(SSL_set_bio)                        \
  FUNCTION(SSL_set_connect_state)              \
  FUNCTION(SSL_write)                          \
  FUNCTION(TLS_client_method)                  \
  FUNCTION(X509_VERIFY_PARAM_set1_ip_asc)      \
  FUNCTION(X509_verify_cert_error_string)
#define DDPRUN_TLS_MEMBER(name) decltype(&::name) name = nullptr;
  DDPRUN_TLS_FUNCTIONS(DDPRUN_TLS_MEMBER)
#undef DDPRUN_TLS_MEMBER
};

/// Loaded once for the process, and never unloaded. Throws Error{Errc::system} if that fails.
const TlsLibrary& tls_library();

}  // namespace ddprun::security
