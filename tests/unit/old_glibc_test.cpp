// The replacements for newer functions of glibc, which take the place of its own in this program.
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

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

  TEST_CASE(
      "old glibc: a wait returns ETIMEDOUT after its end and does not use the CPU meanwhile") {
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    timespec end{}, now{}, before{}, after{};
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 1;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    ::pthread_mutex_lock(&mutex);
    int result = 0;
    int calls = 0;
    for (; result == 0; ++calls)
      result = ::pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end);
    CHECK(result == ETIMEDOUT);
    CHECK(calls <= 3);
    CHECK(::pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end) == ETIMEDOUT);
    ::pthread_mutex_unlock(&mutex);
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(std::pair(now.tv_sec, now.tv_nsec) >= std::pair(end.tv_sec, end.tv_nsec));
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    CHECK((after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec <
          500'000'000);
  }

  TEST_CASE("old glibc: a wait without an end lasts until its notification") {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_changed = false;
    std::unique_lock lock(mutex);
    std::thread notifier([&] {
      ::usleep(1'200'000);
      const std::lock_guard guard(mutex);
      is_changed = true;
      changed.notify_one();
    });
    CHECK(changed.wait_until(lock, Clock::time_point::max(), [&] { return is_changed; }));
    lock.unlock();
    notifier.join();
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
