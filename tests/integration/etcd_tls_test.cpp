// The etcd client with TLS and real servers that require client certificates.
#include "rendezvous/etcd/client.hpp"
#include "rendezvous/security/tls.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace etcd_tls_test {

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::etcd::Problem;
using namespace std::chrono_literals;
using namespace ddprun::test;
using security::TlsContext;
using security::TlsFiles;
namespace asio = boost::asio;

namespace {

constexpr const char* kNoEtcd = "etcd is not installed (Debian: etcd-server)";
constexpr const char* kLoopback = "IP:127.0.0.1";

/// Authorities, a server certificate and client certificates.
struct Certificates {
  TemporaryFolder folder;
  Authority authority{folder, "authority"};
  Authority other{folder, "other"};
  Certificate server = authority.issue("server", {.names = kLoopback});
  Certificate client = authority.issue("client");

  EtcdTls of_server(const Certificate& certificate) const {
    return {certificate.certificate, certificate.key, authority.file()};
  }
  TlsFiles of_client() const { return {authority.file(), client.certificate, client.key}; }
};

std::shared_ptr<const TlsContext> context_of(const TlsFiles& files) {
  return std::make_shared<const TlsContext>(files, "--rdzv_conf=");
}

struct Asking {
  asio::io_context context;
  Client client;

  Asking(const EtcdServer& etcd, std::shared_ptr<const TlsContext> tls,
         const std::string& host = "127.0.0.1")
      : client(context.get_executor(), {{host, static_cast<std::uint16_t>(etcd.port())}},
               std::move(tls)) {}

  template <typename T>
  T finish(asio::awaitable<T> operation) {
    auto result = asio::co_spawn(context, std::move(operation), asio::use_future);
    context.restart();
    context.run();
    return result.get();
  }

  static Deadline soon() { return Deadline::after(20s); }

  /// Empty: a key was read.
  std::string problem() {
    const auto result = finish(client.commit({.read = Range{"k"}}, soon()));
    const auto* problem = std::get_if<Problem>(&result);
    return problem == nullptr ? std::string() : problem->text;
  }
};

std::string refusal_of(const TlsFiles& files) {
  try {
    context_of(files);
  } catch (const ddprun::Error& error) {
    return error.what();
  }
  return "";
}

std::string at(const EtcdServer& etcd, const std::string& host = "127.0.0.1") {
  return "etcd at " + host + ":" + etcd.port_text() + ": ";
}

}  // namespace

TEST_SUITE("etcd with TLS") {
  TEST_CASE("etcd TLS: all operations work with a client certificate") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const Certificates all;
    const EtcdServer etcd(all.of_server(all.server));
    Asking asking(etcd, context_of(all.of_client()));
    const std::string long_value(1'000'000, 'v');  // many records of TLS
    const auto lease = std::get<Lease>(asking.finish(asking.client.grant(60s, Asking::soon()))).id;
    const auto written = std::get<TransactionAnswer>(asking.finish(asking.client.commit(
        {.conditions = {{"k", 0}}, .puts = {{"k", long_value, lease}}, .read = Range{"k"}},
        Asking::soon())));
    CHECK(written.has_succeeded);
    REQUIRE(written.keys.size() == 1);
    CHECK(written.keys.front().value == long_value);
    CHECK(asking.client.local_address() == "127.0.0.1");
    CHECK(std::get<std::chrono::seconds>(
              asking.finish(asking.client.renew(lease, Asking::soon()))) == 60s);
    CHECK(asking.finish(asking.client.wait_for_change({"k"}, written.revision, Asking::soon())));
  }

  TEST_CASE("etcd TLS: a certificate error is reported with a remedy") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    Certificates all;
    const EtcdServer etcd(all.of_server(all.server));
    auto files = all.of_client();
    files.authorities = all.other.file();
    CHECK(Asking(etcd, context_of(files)).problem() ==
          at(etcd) + "its certificate is not signed by an authority in " + all.other.file() +
              "; give the one that signed it (cacert)");
    files.authorities.clear();
    CHECK(Asking(etcd, context_of(files)).problem() ==
          at(etcd) +
              "its certificate is not signed by an authority that this system knows; give "
              "its own (cacert)");
    CHECK(Asking(etcd, context_of(all.of_client()), "localhost").problem() ==
          at(etcd, "localhost") +
              "its certificate is not for localhost; give a name or address "
              "that is in the certificate");
    CHECK(Asking(etcd, context_of({.authorities = all.authority.file()})).problem() ==
          at(etcd) + "it requires a certificate of its clients; give one (cert, key)");
    const auto foreign = all.other.issue("client");
    const auto refused =
        Asking(etcd, context_of({all.authority.file(), foreign.certificate, foreign.key}))
            .problem();
    CHECK(refused.find(at(etcd) + "it does not accept this node's certificate (") == 0);
    CHECK(refused.find("; give one that its authority has signed for clients (cert, key)") !=
          std::string::npos);
    CHECK(Asking(etcd, nullptr).problem() ==
          at(etcd) +
              "it closed the connection without an answer; give --rdzv_conf=protocol=https if "
              "it uses TLS");
  }

  TEST_CASE("etcd TLS: dates and name or address of a certificate are checked") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    Certificates all;
    const auto named = all.authority.issue("named", {.names = "DNS:localhost"});
    const EtcdServer by_name(all.of_server(named));
    CHECK(Asking(by_name, context_of(all.of_client()), "localhost").problem().empty());
    CHECK(Asking(by_name, context_of(all.of_client())).problem() ==
          at(by_name) +
              "its certificate is not for 127.0.0.1; give a name or address that is in "
              "the certificate");
    const auto past =
        all.authority.issue("past", {.names = kLoopback, .from_s = -7200, .until_s = -3600});
    const EtcdServer expired(all.of_server(past));
    CHECK(Asking(expired, context_of(all.of_client())).problem() ==
          at(expired) + "its certificate has expired; renew it, or set this machine's clock");
    const auto future =
        all.authority.issue("future", {.names = kLoopback, .from_s = 3600, .until_s = 7200});
    const EtcdServer early(all.of_server(future));
    CHECK(Asking(early, context_of(all.of_client())).problem() ==
          at(early) + "its certificate is not valid yet; set this machine's clock");
  }

  TEST_CASE("etcd TLS: a server without TLS is reported with a remedy") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const Certificates all;
    const EtcdServer etcd;
    CHECK(Asking(etcd, context_of(all.of_client())).problem() ==
          at(etcd) +
              "it closed the connection during the TLS handshake; give "
              "--rdzv_conf=protocol=http if it does not use TLS");
  }
}

TEST_SUITE("session of TLS") {
  TEST_CASE("etcd TLS: a session with an invalid server name fails") {
    const auto context = context_of({});
    for (const auto& host : {std::string(), std::string(300, 'a')}) {
      security::TlsSession session(context, host);
      CHECK_FALSE(session.shake_hands());
      CHECK(session.outgoing().empty());
      CHECK(session.problem() ==
            "its name '" + host + "' cannot be in a certificate; give another one");
    }
    security::TlsSession session(context, "localhost");
    CHECK_FALSE(session.shake_hands());
    CHECK_FALSE(session.outgoing().empty());
    session.feed("SSH-2.0-OpenSSH_9.2 and more\r\n");
    CHECK_FALSE(session.shake_hands());
    CHECK(session.problem() ==
          "it does not use TLS; give protocol=http, or the port at which it uses TLS");
  }
}

TEST_SUITE("files of TLS") {
  TEST_CASE("etcd TLS: unusable files are rejected with the option and the reason") {
    Certificates all;
    const auto good = all.of_client();
    CHECK(refusal_of(good).empty());
    const auto missing = all.folder / "missing";
    const auto text = all.folder / "text";
    std::ofstream(text) << "no certificate\n";
    REQUIRE(::chmod(text.c_str(), 0600) == 0);
    CHECK(refusal_of({.authorities = missing}) ==
          "--rdzv_conf=cacert=" + missing + ": No such file or directory");
    CHECK(refusal_of({.authorities = text})
              .find("--rdzv_conf=cacert=" + text + ": holds no certificates (") == 0);
    CHECK(refusal_of({good.authorities, missing, good.key}) ==
          "--rdzv_conf=cert=" + missing + ": No such file or directory");
    CHECK(refusal_of({good.authorities, text, good.key})
              .find("--rdzv_conf=cert=" + text + ": holds no certificate (") == 0);
    CHECK(refusal_of({good.authorities, good.certificate, missing}) ==
          "--rdzv_conf=key=" + missing + ": No such file or directory");
    CHECK(refusal_of({good.authorities, good.certificate, text})
              .find("--rdzv_conf=key=" + text +
                    ": holds no key of the certificate that can be read (") == 0);
    CHECK(refusal_of({good.authorities, good.certificate, all.server.key})
              .find("--rdzv_conf=key=" + all.server.key + ": ") == 0);
    // OpenSSL would ask for the password on the terminal.
    const auto locked = all.authority.issue("locked", {.has_pass_phrase = true});
    CHECK(refusal_of({good.authorities, locked.certificate, locked.key})
              .find("; give one in PEM format and without a pass phrase") != std::string::npos);
    REQUIRE(::chmod(good.key.c_str(), 0640) == 0);
    CHECK(refusal_of(good) == "--rdzv_conf=key=" + good.key +
                                  ": is open to others than its owner (mode 0640); chmod 600 " +
                                  good.key);
  }

  TEST_CASE("etcd TLS: certificate and key can be in one file") {
    const Certificates all;
    const auto both = all.folder / "both.pem";
    std::ofstream(both) << std::ifstream(all.client.certificate).rdbuf()
                        << std::ifstream(all.client.key).rdbuf();
    REQUIRE(::chmod(both.c_str(), 0644) == 0);
    CHECK(refusal_of({.certificate = both})
              .find("--rdzv_conf=cert=" + both + ": is open to others than its owner") == 0);
    REQUIRE(::chmod(both.c_str(), 0600) == 0);
    CHECK(refusal_of({.certificate = both}).empty());
  }

  TEST_CASE("etcd TLS: a missing key is reported for any mode of the certificate file") {
    Certificates all;
    const auto locked = all.authority.issue("locked", {.has_pass_phrase = true});
    const auto both = all.folder / "both.pem";
    std::ofstream(both) << std::ifstream(locked.certificate).rdbuf()
                        << std::ifstream(locked.key).rdbuf();
    for (const auto& path : {all.client.certificate, both}) {
      for (const mode_t mode : {0644, 0600}) {
        REQUIRE(::chmod(path.c_str(), mode) == 0);
        const auto refusal = refusal_of({.certificate = path});
        CAPTURE(refusal);
        CHECK(refusal.starts_with("--rdzv_conf=cert=" + path +
                                  ": holds no key of the certificate that can be read ("));
        CHECK(refusal.ends_with(
            "), and key is not given; add key=FILE, in PEM format and without a pass phrase"));
      }
    }
    REQUIRE(::chmod(all.server.certificate.c_str(), 0644) == 0);
    CHECK(refusal_of({.certificate = all.client.certificate, .key = all.server.certificate})
              .starts_with("--rdzv_conf=key=" + all.server.certificate + ": holds no key"));
  }

  TEST_CASE("etcd TLS: a named pipe is rejected without blocking") {
    const Certificates all;
    const auto pipe = all.folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const std::string problem = pipe + ": is not a regular file";
    CHECK(refusal_of({.authorities = pipe}) == "--rdzv_conf=cacert=" + problem);
    CHECK(refusal_of({.certificate = pipe}) == "--rdzv_conf=cert=" + problem);
    CHECK(refusal_of({.certificate = all.client.certificate, .key = pipe}) ==
          "--rdzv_conf=key=" + problem);
  }
}

}  // namespace etcd_tls_test
