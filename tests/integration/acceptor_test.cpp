// Failures of accept4().
#include "rendezvous/store/acceptor.hpp"

#include "tests/support/raw_client.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <vector>

namespace acceptor_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// Makes accept4() fail with EPERM in this thread, as under a security module.
bool refuse_accept() {
  std::array<sock_filter, 4> program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_accept4, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog loaded{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded) == 0;
}

}  // namespace

TEST_SUITE("acceptor") {
  TEST_CASE("acceptor: a failed accept4 is reported and retried after a pause") {
    std::vector<std::string> errors;
    bool is_refused = false;
    // On its own thread: a filter cannot be removed.
    std::thread thread([&] {
      boost::asio::io_context context(1);
      Acceptor acceptor(
          context.get_executor(), StoreEndpoint{"127.0.0.1", 0}, [](int) {},
          [&](const std::string& what) {
            errors.push_back(what);
            if (errors.size() == 3) context.stop();
          });
      is_refused = refuse_accept();
      if (!is_refused) return;
      acceptor.start();
      const RawClient client(acceptor.endpoint());
      context.run_for(20s);
    });
    thread.join();
    REQUIRE(is_refused);
    REQUIRE(errors.size() == 3);
    CHECK(errors[0] == "cannot accept a connection: Operation not permitted; trying again");
  }
}

}  // namespace acceptor_test
