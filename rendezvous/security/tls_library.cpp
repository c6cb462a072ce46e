#include "rendezvous/security/tls_library.hpp"

#include <ddprun/error.hpp>

#include <dlfcn.h>
#include <openssl/opensslv.h>

#include <string>

namespace ddprun::security {

namespace {

#define DDPRUN_TLS_TEXT_OF(value) #value
#define DDPRUN_TLS_TEXT(value) DDPRUN_TLS_TEXT_OF(value)
/// Of the version whose headers this was compiled with.
constexpr const char* kName = "libssl.so." DDPRUN_TLS_TEXT(OPENSSL_SHLIB_VERSION);
#undef DDPRUN_TLS_TEXT
#undef DDPRUN_TLS_TEXT_OF

[[noreturn]] void refuse_library(const std::string& why) {
  throw Error(Errc::system, "TLS: cannot load " + std::string(kName) + ": " + why +
                                "; install OpenSSL's libraries (Debian: libssl3)");
}

/// libcrypto's functions are found, too: it is loaded with libssl.
template <typename Function>
void find(void* library, Function& function, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) refuse_library("it lacks " + std::string(name));
  function = reinterpret_cast<Function>(found);
}

TlsLibrary load() {
  void* library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse_library(::dlerror());
  TlsLibrary functions;
#define DDPRUN_TLS_FIND(name) find(library, functions.name, #name);
  DDPRUN_TLS_FUNCTIONS(DDPRUN_TLS_FIND)
#undef DDPRUN_TLS_FIND
  return functions;
}

}  // namespace

const TlsLibrary& tls_library() {
  static const TlsLibrary library = load();
  return library;
}

}  // namespace ddprun::security
