// The replacements for newer functions of glibc, which take the place of its own in this program.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace old_glibc_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_SUITE("old glibc") {
  TEST_CASE("old glibc: a wait by the steady clock lasts until its end") {
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock lock(mutex);
    for (const auto time : {-1'000ms, 0ms, 30ms, 1'200ms}) {
      const auto begin = Clock::now();
      CHECK_FALSE(changed.wait_until(lock, begin + time, [] { return false; }));
      CHECK(Clock::now() - begin >= time);
      CHECK(Clock::now() - begin < time + 60s);
    }
  }

  TEST_CASE("old glibc: a notification ends a wait by the steady clock") {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_changed = false;
    std::unique_lock lock(mutex);
    std::thread notifier([&] {
      const std::lock_guard guard(mutex);
      is_changed = true;
      changed.notify_one();
    });
    CHECK(changed.wait_until(lock, Clock::now() + 600s, [&] { return is_changed; }));
    lock.unlock();
    notifier.join();
  }

  TEST_CASE("old glibc: a thread has the ID that the kernel gave it") {
    std::thread([] { CHECK(::gettid() == ::syscall(SYS_gettid)); }).join();
    CHECK(::gettid() == ::getpid());
  }
}

}  // namespace old_glibc_test
