#include "rendezvous/control/control_page.hpp"

#include "rendezvous/control/flight_log.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace control_page_test {

using ddprun::Deadline;
using ddprun::control::AbortRecord;
using ddprun::control::ControlPage;
using ddprun::control::kFlightPage;
using ddprun::control::WorkerPhase;
using namespace std::chrono_literals;

namespace {

/// Forks a worker that announces itself and then runs `then`.
pid_t fork_worker(const ControlPage& page, int local_rank, void (*then)(ControlPage&, int)) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto mine = ControlPage::attach(::dup(page.fd()), local_rank);
    mine.announce_alive(local_rank);
    then(mine, local_rank);
    ::pause();
    ::_exit(0);
  }
  return pid;
}

template <typename Condition>
bool wait_until(const ControlPage& page, Condition condition) {
  const auto deadline = Deadline::after(20s);
  const std::array<bool, 4> none_known{};
  while (true) {
    const auto changes = page.changes();
    if (condition()) return true;
    if (deadline.passed()) return false;
    page.wait_for_change(changes, none_known.data(), deadline);
  }
}

/// The kernel writes a byte there for this process, if permitted.
bool is_writable(const void* address) {
  const int zero = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const bool is_written = ::read(zero, const_cast<void*>(address), 1) == 1;
  ::close(zero);
  return is_written;
}

}  // namespace

TEST_SUITE("control page") {
  TEST_CASE("control page: a killed worker is known to be dead before it is reaped") {
    const auto page = ControlPage::create(2);
    const pid_t pid = fork_worker(page, 1, [](ControlPage&, int) {});
    CHECK(wait_until(page, [&] { return page.phase(1) == WorkerPhase::alive; }));
    CHECK_FALSE(page.is_dead(1));
    ::kill(pid, SIGKILL);
    CHECK(wait_until(page, [&] { return page.is_dead(1); }));
    CHECK_FALSE(page.is_dead(0));
    CHECK(page.phase(0) == WorkerPhase::silent);
    CHECK(page.pid(1) == pid);
    CHECK(page.pid(0) == 0);
    CHECK(::waitpid(pid, nullptr, 0) == pid);
  }

  TEST_CASE("control page: the exit status announced by a worker can be read") {
    const auto page = ControlPage::create(1);
    const pid_t pid =
        fork_worker(page, 0, [](ControlPage& mine, int rank) { mine.announce_exit(rank, 7); });
    CHECK(wait_until(page, [&] { return page.phase(0) == WorkerPhase::exiting; }));
    CHECK(page.exit_status(0) == 7);
    ::kill(pid, SIGKILL);
    CHECK(::waitpid(pid, nullptr, 0) == pid);
  }

  TEST_CASE("control page: a forked child cannot announce for the worker") {
    auto page = ControlPage::create(1);
    page.announce_alive(0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      page.announce_exit(0, 3);
      ::_exit(0);
    }
    CHECK(::waitpid(pid, nullptr, 0) == pid);
    CHECK(page.phase(0) == WorkerPhase::alive);
    CHECK_FALSE(page.is_dead(0));
  }

  TEST_CASE("control page: a worker can announce itself only once") {
    auto page = ControlPage::create(1);
    page.announce_alive(0);
    CHECK_THROWS_AS(page.announce_alive(0), ddprun::Error);
  }

  TEST_CASE("control page: only the first abort is kept and a long reason is cut") {
    auto page = ControlPage::create(1);
    CHECK_FALSE(page.abort_record());
    page.abort({.rank = 3, .reason = std::string(1000, 'x')});
    page.abort({.rank = 4, .reason = "later"});
    CHECK(page.is_aborted());
    CHECK(page.abort_word().load() != 0);
    CHECK(page.abort_record() == AbortRecord{.rank = 3, .reason = std::string(200, 'x')});
  }

  TEST_CASE("control page: wake() ends a current wait and later waits for the same change") {
    const auto page = ControlPage::create(1);
    const bool none_known = false;
    const auto changes = page.changes();
    std::thread waker([&] { page.wake(); });
    while (page.changes() == changes)
      page.wait_for_change(changes, &none_known, Deadline::after(20s));
    waker.join();
    page.wait_for_change(changes, &none_known, Deadline::never());
    CHECK(page.changes() != changes);
  }

  TEST_CASE("control page: workers can read the run's key if it has one") {
    const auto key = ddprun::sha256("key");
    const auto page = ControlPage::create(2, 0, key);
    const auto attached = ControlPage::attach_again(page.fd(), 1);
    REQUIRE(attached.run_key());
    CHECK(*attached.run_key() == key);
    const auto without = ControlPage::create(2);
    CHECK_FALSE(ControlPage::attach_again(without.fd(), 1).run_key());
  }

  TEST_CASE("control page: the memory cannot be resized or sealed by a worker") {
    const auto page = ControlPage::create(2);
    CHECK(::ftruncate(page.fd(), 0) == -1);
    CHECK(errno == EPERM);
    CHECK(::ftruncate(page.fd(), off_t{1} << 30) == -1);
    CHECK(::fcntl(page.fd(), F_ADD_SEALS, F_SEAL_WRITE) == -1);
  }

  TEST_CASE("control page: a worker can write only to its own part") {
    const auto page = ControlPage::create(3);
    const auto mine = ControlPage::attach_again(page.fd(), 1);
    CHECK(is_writable(mine.worker_area(1)));
    CHECK_FALSE(is_writable(mine.worker_area(0)));
    CHECK_FALSE(is_writable(mine.worker_area(2)));
    CHECK_FALSE(is_writable(static_cast<char*>(mine.worker_area(2)) - 1 +
                            kFlightPage));  // the rest of the page of the slot
    CHECK_FALSE(is_writable(&mine.abort_word()));
    mine.wake();
    CHECK(page.changes() == 1);
  }

  TEST_CASE("control page: overwritten sizes do not affect the agent") {
    const auto page = ControlPage::create(2, 7);
    const std::array<std::int32_t, 2> wrong = {0x7fffffff, -1};
    REQUIRE(::pwrite(page.fd(), wrong.data(), sizeof wrong, 8) == sizeof wrong);
    CHECK(page.local_world_size() == 2);
    CHECK(page.round() == 7);
    CHECK(page.phase(1) == WorkerPhase::silent);
    CHECK_THROWS_AS(ControlPage::attach_again(page.fd(), 0), ddprun::Error);
  }

  TEST_CASE("control page: an unknown phase of a worker is reported as damage") {
    auto page = ControlPage::create(1);
    CHECK_FALSE(page.damage(0));
    page.announce_alive(0);
    CHECK_FALSE(page.damage(0));
    auto* const bytes = static_cast<unsigned char*>(page.worker_area(0));
    std::fill_n(bytes + sizeof(pthread_mutex_t), 4, 0x80);
    CHECK(page.damage(0) == "phase 2155905152");
  }

  TEST_CASE("control page: invalid sizes and ranks and files are rejected") {
    CHECK_THROWS_AS(ControlPage::create(0), ddprun::Error);
    CHECK_THROWS_AS(ControlPage::create(1025), ddprun::Error);
    CHECK_THROWS_AS(ControlPage::attach(-1, 0), ddprun::Error);
    const int null = ::open("/dev/null", O_RDWR);
    CHECK_THROWS_AS(ControlPage::attach(null, 0), ddprun::Error);
    ::close(null);
    const auto page = ControlPage::create(2);
    const int copy = ::dup(page.fd());
    CHECK_THROWS_AS(ControlPage::attach(copy, 2), ddprun::Error);
    ::close(copy);
  }
}

}  // namespace control_page_test
