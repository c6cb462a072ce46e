#include "tests/support/thread_limit.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <optional>
#include <pthread.h>

namespace ddprun::test {

namespace {

thread_local std::optional<int> threads_left;

}  // namespace

ThreadLimit::ThreadLimit(int threads) {
  threads_left = threads;
}
ThreadLimit::~ThreadLimit() {
  threads_left.reset();
}

}  // namespace ddprun::test

// The thread sanitizer's function if linked in: it must know each thread.
extern "C" __attribute__((weak)) int __interceptor_pthread_create(pthread_t* thread,
                                                                  const pthread_attr_t* attributes,
                                                                  void* (*body)(void*),
                                                                  void* argument);

/// Overrides the C library's function in the whole program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  auto& left = ddprun::test::threads_left;
  if (left && (*left)-- <= 0) return EAGAIN;
  if (__interceptor_pthread_create != nullptr)
    return __interceptor_pthread_create(thread, attributes, body, argument);
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, body, argument);
}
