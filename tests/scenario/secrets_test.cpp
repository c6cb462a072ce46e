// Runs of several nodes with the same secret, different ones and none.
#include "tests/support/cluster.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <csignal>
#include <filesystem>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace secrets_test {

using ddprun::test::contains;
using ddprun::test::count;
using ddprun::test::FreePort;
using ddprun::test::in_bin;
using ddprun::test::launch;
using ddprun::test::make_secret;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::run_program;
using ddprun::test::skip;
using ddprun::test::TemporaryFolder;
using ddprun::test::write_file;

namespace {

/// A node of a run of at most two, without Cluster's secret.
Program start_node(int number, const FreePort& port, std::vector<std::string> more,
                   const std::string& script = "true",
                   const std::string& program = in_bin("ddprun"),
                   const std::string& more_conf = "") {
  std::vector<std::string> options = {
      "--nnodes=1:2",
      "--rdzv_backend=c10d",
      "--rdzv_endpoint=127.0.0.2:" + port.text(),
      "--rdzv_id=secrets",
      "--local_addr=127.0.0." + std::to_string(number),
      "--rdzv_conf=last_call_timeout=60," + more_conf + "is_host=" + (number == 2 ? "1" : "0")};
  options.insert(options.end(), more.begin(), more.end());
  return Program(launch(options, script, program));
}

/// Result of a connection to 127.0.0.2 from this address, on which a client of the store requests
/// the number of keys.
enum class Reception { answered, closed, silent };
Reception call_store(const std::string& from, int port) {
  constexpr int kPatience = 20'000;
  constexpr char kNumberOfKeys[] = {6};  // in the old dialect, which needs no greeting
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in source{.sin_family = AF_INET, .sin_addr = {::inet_addr(from.c_str())}};
  sockaddr_in target{.sin_family = AF_INET,
                     .sin_port = htons(static_cast<std::uint16_t>(port)),
                     .sin_addr = {::inet_addr("127.0.0.2")}};
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&source), sizeof source) == 0);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&target), sizeof target) == 0);
  ::send(fd, kNumberOfKeys, sizeof kNumberOfKeys, MSG_NOSIGNAL);
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  char answer[8];
  auto reception = Reception::silent;
  if (::poll(&readable, 1, kPatience) > 0) {
    reception = ::recv(fd, answer, sizeof answer, 0) > 0 ? Reception::answered : Reception::closed;
  }
  ::close(fd);
  return reception;
}

}  // namespace

TEST_SUITE("secrets") {
  TEST_CASE("secrets: both nodes report that their secrets differ") {
    const TemporaryFolder folder;
    const FreePort port;
    auto host = start_node(2, port, {"--secret_file=" + make_secret(folder / "one", '1')});
    REQUIRE(host.read_until_contains("hosts the rendezvous"));
    auto stranger = start_node(3, port, {"--secret_file=" + make_secret(folder / "two", '2')},
                               "true", in_bin("ddprun"), "join_timeout=2,");
    CHECK(stranger.wait() == 1);
    CHECK(contains(stranger.output(),
                   "the rendezvous does not know this run's secret; the file of --secret_file must "
                   "be the same on all nodes; gave up after 2 s (join_timeout)"));
    const std::string reason = ": it does not know this run's secret (--secret_file)";
    REQUIRE(host.read_until_contains("rendezvous: refused 127.0.0.1" + reason));
    // The run is not affected: a node with the right secret can still join.
    auto friendly = start_node(3, port, {"--secret_file=" + folder / "one"});
    CHECK(friendly.wait() == 0);
    CHECK(host.wait() == 0);
    CHECK(contains(host.output(), "the rendezvous refused 127.0.0.1 "));
    CHECK(contains(host.output(), " times" + reason));
    for (const auto* program : {&host, &stranger, &friendly}) {
      CHECK_FALSE(contains(program->output(), ddprun::test::secret_of('1').substr(0, 20)));
      CHECK_FALSE(contains(program->output(), ddprun::test::secret_of('2').substr(0, 20)));
    }
  }

  TEST_CASE("secrets: a secret that only one side has is reported on both sides") {
    const TemporaryFolder folder;
    const auto secret = "--secret_file=" + make_secret(folder / "secret");
    const std::string open = "--security=open";
    struct Row {
      std::string host, other, text;
    };
    for (const auto& row :
         {Row{secret, open,
              "refused: the run has a secret, the node that joins has none (--secret_file)"},
          Row{open, secret,
              "the node that joins has a secret (--secret_file), the run has none"}}) {
      const FreePort port;
      auto host = start_node(2, port, {row.host});
      REQUIRE(host.read_until_contains("hosts the rendezvous"));
      auto other = start_node(3, port, {row.other}, "true", in_bin("ddprun"), "join_timeout=2,");
      CHECK(other.wait() == 1);
      CHECK(contains(other.output(), row.text));
      REQUIRE(host.read_until_contains("refused 127.0.0.1: "));
      auto right = start_node(3, port, {row.host});
      CHECK(right.wait() == 0);
      CHECK(host.wait() == 0);
    }
  }

  TEST_CASE("secrets: several nodes without a security option are rejected with both remedies") {
    const auto run = run_program(
        {in_bin("ddprun"), "--nnodes=2", "--master_addr=127.0.0.2", "--no_python", "/bin/true"});
    CHECK(run.exit_code == 2);
    CHECK(contains(run.output, "ddprun keygen FILE"));
    CHECK(contains(run.output, "--secret_file=FILE"));
    CHECK(contains(run.output, "--security=open"));
  }

  TEST_CASE("secrets: a run of several nodes as torchrun is open and causes one warning") {
    const TemporaryFolder folder;
    const auto torchrun = folder / "torchrun";
    std::filesystem::create_symlink(in_bin("ddprun"), torchrun);
    const FreePort port;
    auto host = start_node(2, port, {}, "true", torchrun);
    auto other = start_node(3, port, {}, "true", torchrun);
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    for (const auto* program : {&host, &other}) {
      CHECK(count(program->output(), "any machine that reaches this run's nodes can take part") ==
            1);
    }
    auto kept =
        start_node(2, port, {"--secret_file=" + make_secret(folder / "secret")}, "true", torchrun);
    auto other_kept = start_node(3, port, {"--secret_file=" + folder / "secret"}, "true", torchrun);
    CHECK(kept.wait() == 0);
    CHECK(other_kept.wait() == 0);
    CHECK_FALSE(contains(kept.output(), "any machine that"));
  }

  TEST_CASE("secrets: a secret readable by others is rejected before any start") {
    const TemporaryFolder folder;
    const auto secret = make_secret(folder / "secret");
    std::filesystem::permissions(secret, std::filesystem::perms::others_read,
                                 std::filesystem::perm_options::add);
    auto node = start_node(2, FreePort(), {"--secret_file=" + secret}, "touch " + folder / "ran");
    CHECK(node.wait() == 2);
    CHECK(contains(node.output(), "ddprun: --secret_file=" + secret +
                                      ": is open to others than its owner (mode 0404)"));
    CHECK_FALSE(std::filesystem::exists(folder / "ran"));
  }

  TEST_CASE("secrets: a weak secret causes a warning in a run and a dry run and a check") {
    const TemporaryFolder folder;
    const auto secret = "--secret_file=" + folder / "weak";
    write_file(folder / "weak", std::string(32, 'a'));
    std::filesystem::permissions(folder / "weak", std::filesystem::perms(0600));
    write_file(folder / "job.json", R"({"version": 1})");
    auto check = launch({"config", "check", folder / "job.json", "--nnodes=1:2", secret,
                         "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.2"},
                        "true");
    auto run = start_node(2, FreePort(), {secret, "--rdzv_conf=last_call_timeout=0.1,is_host=1"});
    auto dry_run = start_node(2, FreePort(), {secret, "--dry_run"});
    Program checked(check);
    for (auto* program : {&run, &dry_run, &checked}) {
      CHECK(program->wait() == 0);
      INFO(program->output());
      CHECK(count(program->output(),
                  secret + ": has fewer than 8 different bytes and can be guessed; 'ddprun keygen "
                           "FILE' writes a random one\n") == 1);
    }
  }

  TEST_CASE("secrets: keygen writes a usable secret and never overwrites a file") {
    const TemporaryFolder folder;
    const auto file = folder / "run.key";
    const auto made = run_program({in_bin("ddprun"), "keygen", file});
    CHECK(made.exit_code == 0);
    CHECK(contains(made.output, "wrote a new secret to " + file));
    CHECK_FALSE(contains(made.output, read_file(file).substr(0, 64)));
    const auto again = run_program({in_bin("ddprun"), "keygen", file});
    CHECK(again.exit_code == 1);
    CHECK(again.output ==
          "ddprun: " + file +
              ": exists already, and other nodes may use it; remove it first, or give another "
              "name\n");
    const auto nowhere = run_program({in_bin("ddprun"), "keygen", folder / "no/run.key"});
    CHECK(nowhere.exit_code == 1);
    CHECK(
        nowhere.output ==
        "ddprun: " + folder / "no/run.key" +
            ": cannot be written: No such file or directory; give a file in a folder that exists, "
            "is writable and has free space\n");
    CHECK(run_program({in_bin("ddprun"), "keygen"}).exit_code == 2);
    CHECK(run_program({in_bin("ddprun"), "keygen", "--force"}).exit_code == 2);
    CHECK(contains(run_program({in_bin("ddprun"), "keygen", "--help"}).output, "keygen FILE"));
    const auto torchrun = folder / "torchrun";  // has no subcommands
    std::filesystem::create_symlink(in_bin("ddprun"), torchrun);
    CHECK(run_program({torchrun, "keygen", folder / "another"}).exit_code != 0);
    CHECK_FALSE(std::filesystem::exists(folder / "another"));
    const FreePort port;
    auto host = start_node(2, port, {"--secret_file=" + file});
    auto other = start_node(3, port, {"--secret_file=" + file});
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
  }

  TEST_CASE("secrets: the command line overrides the secret of a configuration file") {
    const TemporaryFolder folder;
    const auto secret = make_secret(folder / "secret");
    const auto check = [&](const std::string& security, std::vector<std::string> more) {
      write_file(folder / "job.json", R"({"version": 1, "security": )" + security + "}");
      std::vector<std::string> command = {in_bin("ddprun"), "--config=" + folder / "job.json",
                                          "--nnodes=2", "--master_addr=127.0.0.2", "--dry_run"};
      command.insert(command.end(), more.begin(), more.end());
      command.insert(command.end(), {"--no_python", "/bin/true"});
      return run_program(command);
    };
    CHECK(check(R"({"mode": "open"})", {}).exit_code == 0);
    const auto named = "{\"secret_file\": \"" + secret + "\"}";
    const auto planned = check(named, {});
    CHECK(planned.exit_code == 0);
    CHECK(contains(planned.output, "secret: " + secret + "\n"));
    CHECK(contains(planned.output, "MASTER_PORT=(chosen at the start)"));
    CHECK(check(named, {"--security=open"}).exit_code == 0);
    CHECK(check(R"({"mode": "open"})", {"--secret_file=" + secret}).exit_code == 0);
    CHECK(check("{}", {}).exit_code == 2);
    const auto both = check(R"({"mode": "open", "secret_file": "x"})", {});
    CHECK(both.exit_code == 2);
    CHECK(contains(both.output,
                   "job.json:1:37: security.mode: --security=open and --secret_file "
                   "exclude each other"));
    const auto shut = check(R"({"mode": "shut"})", {});
    CHECK(shut.exit_code == 2);
    CHECK(contains(shut.output, "job.json:1:37: security.mode: "));
    const auto wrong = check(R"({"security": "open"})", {});
    CHECK(contains(wrong.output, "security.security: unknown key"));
  }

  TEST_CASE("secrets: workers get neither the secret nor its file") {
    const TemporaryFolder folder;
    const FreePort port;
    auto node = start_node(2, port,
                           {"--secret_file=" + make_secret(folder / "the-secret"),
                            "--rdzv_conf=last_call_timeout=0.1,is_host=1"},
                           "env; cat /proc/self/cmdline; ls -l /proc/self/fd; cat /proc/$PPID/"
                           "cmdline | tr '\\0' ' ' > " +
                               folder / "agent");
    CHECK(node.wait() == 0);
    CHECK(contains(node.output(), "TORCHELASTIC_RUN_ID=secrets"));
    CHECK_FALSE(contains(node.output(), "the-secret"));
    CHECK_FALSE(contains(node.output(), ddprun::test::secret_of('7').substr(0, 20)));
    CHECK(contains(read_file(folder / "agent"), "the-secret"));  // the path is not secret
    CHECK_FALSE(contains(read_file(folder / "agent"), ddprun::test::secret_of('7').substr(0, 20)));
  }

  TEST_CASE("secrets: the store of a run with a secret has a separate port for the run's nodes") {
    const TemporaryFolder folder;
    const FreePort port;
    const std::string script = "echo \"store at $MASTER_ADDR:$MASTER_PORT.\"; while [ ! -e " +
                               folder / "done" + " ]; do sleep 0.02; done";
    const std::vector<std::string> options = {"--secret_file=" + make_secret(folder / "secret")};
    // Otherwise clients on this machine are admitted by their user, at any address.
    const std::string conf = "check_users=0,";
    auto host = start_node(2, port, options, script, in_bin("ddprun"), conf);
    auto other = start_node(3, port, options, script, in_bin("ddprun"), conf);
    const std::string before = "]:store at 127.0.0.2:";
    REQUIRE(host.read_until_contains(before));
    REQUIRE(other.read_until_contains(before));
    const auto& output = host.output();
    const int store_port = std::stoi(output.substr(output.find(before) + before.size()));
    CHECK(store_port != port.number());
    CHECK(contains(other.output(), before + std::to_string(store_port) + "."));
    // All nodes of this run have reached the rendezvous from 127.0.0.1.
    CHECK(call_store("127.0.0.1", store_port) == Reception::answered);
    CHECK(call_store("127.0.0.9", store_port) == Reception::closed);
    REQUIRE(host.read_until_contains(
        "refused a connection from 127.0.0.9, which is not the address of a "
        "node of this run"));
    // The agents' port is not a store.
    CHECK(call_store("127.0.0.1", port.number()) == Reception::closed);
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
  }

  TEST_CASE("secrets: only an open run warns that the host listens on all addresses") {
    if (run_program({"unshare", "-m", "true"}).exit_code != 0) {
      return skip("mount namespaces are not permitted here");
    }
    const TemporaryFolder folder;
    // A name for the loopback address, like Debian's own name of a machine.
    write_file(folder / "hosts", "127.0.0.7 only-here\n");
    const auto secret = "--secret_file=" + make_secret(folder / "secret");
    const FreePort port;
    for (const std::string& security : {std::string("--security=open"), secret}) {
      auto command =
          launch({"--nnodes=1:2", "--rdzv_backend=c10d", "--rdzv_endpoint=only-here:" + port.text(),
                  "--rdzv_conf=last_call_timeout=0.1,is_host=1", security},
                 "true");
      const std::vector<std::string> mount = {
          "unshare",
          "-m",
          "sh",
          "-c",
          "mount --bind " + folder / "hosts" + " /etc/hosts && exec \"$@\"",
          "sh"};
      command.insert(command.begin(), mount.begin(), mount.end());
      const auto run = run_program(command);
      CHECK(run.exit_code == 0);
      CHECK(contains(run.output, "listening on all of its addresses"));
      CHECK(contains(run.output, "any machine that reaches one of its addresses can take part") ==
            (security != secret));
    }
  }

  TEST_CASE("secrets: agents and workers of an open run share one port") {
    const FreePort port;
    const std::string script = "echo \"store at $MASTER_ADDR:$MASTER_PORT.\"";
    auto host = start_node(2, port, {"--security=open"}, script);
    auto other = start_node(3, port, {"--security=open"}, script);
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(contains(host.output(), "store at 127.0.0.2:" + port.text() + "."));
    CHECK(contains(other.output(), "store at 127.0.0.2:" + port.text() + "."));
  }

  TEST_CASE("secrets: a store port in use is reported by each possible host") {
    const TemporaryFolder folder;
    const auto secret = "--secret_file=" + make_secret(folder / "secret");
    const FreePort taken;
    const FreePort port;
    auto other_run = start_node(2, taken, {secret});
    REQUIRE(other_run.read_until_contains("hosts the rendezvous"));
    const auto conf = "--rdzv_conf=store_port=" + taken.text();  // no node is configured as host
    auto node = start_node(2, port, {secret, conf});
    CHECK(node.wait() == 2);
    CHECK(contains(node.output(), "--rdzv_conf=store_port: "));
    CHECK(contains(node.output(), "port " + taken.text() + " is in use by process " +
                                      std::to_string(other_run.pid())));
    other_run.signal(SIGTERM);
    other_run.wait();
  }

  TEST_CASE("secrets: the port of the store can be configured") {
    const TemporaryFolder folder;
    const FreePort port;
    const FreePort store_port;
    const std::vector<std::string> options = {
        "--secret_file=" + make_secret(folder / "secret"),
        "--rdzv_conf=last_call_timeout=0.1,is_host=1,store_port=" + store_port.text()};
    auto node = start_node(2, port, options, "echo \"store at $MASTER_ADDR:$MASTER_PORT.\"");
    CHECK(node.wait() == 0);
    CHECK(contains(node.output(), "store at 127.0.0.2:" + store_port.text() + "."));
  }
}

}  // namespace secrets_test
