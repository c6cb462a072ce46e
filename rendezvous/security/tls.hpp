// TLS of a client that verifies its server, without I/O: the caller moves the bytes between
// TlsSession and the network. At least version 1.2, with the server's name or address checked.
// The first TlsContext loads OpenSSL's libssl: linking it would add 0.2 ms to each start of the
// program. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Paths of files in PEM format.
struct TlsFiles {
  std::string authorities{};  ///< authorities of servers; empty: the system's
  std::string certificate{};  ///< certificate of this client, with its chain; empty: none
  std::string key{};          ///< key of the certificate; empty: in the same file

  bool operator==(const TlsFiles&) const = default;
};

/// State shared by the connections to a service.
class TlsContext {
 public:
  /// Blocks to read files. Throws Error{Errc::usage} if a file cannot be used, and
  /// Error{Errc::system} if libssl is missing. Messages about files start with `option`, such as
  /// "--rdzv_conf=", the option's key and the path.
  TlsContext(const TlsFiles& files, const std::string& option);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// One connection. Unusable after a problem.
class TlsSession {
 public:
  /// `host`: name or address that the server's certificate must match.
  TlsSession(std::shared_ptr<const TlsContext> context, const std::string& host);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Adds bytes received from the network.
  void feed(std::string_view bytes);

  /// Returns bytes to send over the network; each byte is returned once.
  std::string outgoing();

  /// Continues the handshake. Returns true when it is complete.
  bool shake_hands();

  /// Encrypts, after the handshake.
  void write(std::string_view bytes);

  /// Decrypts received bytes; returns empty if more are needed.
  std::string read();

  /// Returns true if the server has closed its side.
  bool has_ended() const;

  /// Returns the problem as a predicate of the server, with a remedy; empty if none.
  const std::string& problem() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::security
