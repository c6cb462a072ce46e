#include "worker_runtime/worker/failure_report.hpp"

#include "worker_runtime/worker/error_file.hpp"

#include <cxxabi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <typeinfo>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {

namespace {

constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// Space for a handler after a stack overflow; backtrace() alone needs a few KiB.
alignas(64) char alternate_stack[64 << 10];

// Global, since a signal handler has no user argument. Set once before the handlers are installed,
// and never freed.
ErrorFile* open_file = nullptr;

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

/// Appends the number to `text`, which must have room for it. Async-signal-safe.
void append_hexadecimal(char* text, std::uintptr_t number) {
  char* const begin = text + std::strlen(text);
  char* end = begin;
  for (int bits = 60; bits >= 0; bits -= 4) {
    const auto digit = number >> bits & 0xF;
    if (digit != 0 || end != begin || bits == 0) *end++ = "0123456789abcdef"[digit];
  }
  *end = '\0';
}

/// Returns true if the kernel provides the address of the failed access or instruction: not for
/// signals sent by processes, nor for non-canonical addresses.
bool has_address(const siginfo_t& information) {
  return information.si_signo != SIGABRT && information.si_code > 0 &&
         information.si_code != SI_KERNEL;
}

/// Installed with SA_RESETHAND and SA_NODEFER, so that raising the signal again has its default
/// effect: the process ends by it, with a core dump if enabled.
void handle_fatal_signal(int signal, siginfo_t* information, void*) {
  char message[96] = "fatal signal ";
  std::strcat(message, name_of(signal));
  if (has_address(*information)) {
    std::strcat(message, " at address 0x");
    append_hexadecimal(message, reinterpret_cast<std::uintptr_t>(information->si_addr));
  }
  open_file->write(message, message, {}, write_backtrace);
  ::raise(signal);
}

[[noreturn]] void handle_terminate() {
  const auto failure = std::current_exception();
  const Failure described = failure ? describe(failure) : Failure();
  const std::string message = failure ? "uncaught exception: " + described.message
                                      : std::string("std::terminate was called");
  const bool is_kept = open_file->write(message, message, described.code, write_backtrace);
  std::fprintf(stderr, "error: %s\n", message.c_str());
  if (!is_kept && !described.backtrace.empty())
    std::fprintf(stderr, "%s\n", described.backtrace.c_str());
  std::abort();
}

/// Messages of LibTorch end with a backtrace of dozens of lines, which would hide the message.
Failure without_backtrace(const std::string& text) {
  const auto end = text.find("\nException raised from ");
  if (end == std::string::npos) return {text};
  const auto last = text.find_last_not_of('\n', end);
  return {text.substr(0, last + 1), text.substr(end + 1)};
}

/// After an exception has been caught, its stack is gone.
void write_nothing(int) {}

/// The first backtrace() loads a library, which allocates memory: not allowed in a signal handler.
void prime_backtrace() {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0) return;
  write_backtrace(null);
  ::close(null);
}

}  // namespace

void install_failure_report(const std::string& path) {
  if (open_file != nullptr) return;
  open_file = new ErrorFile(path);
  prime_backtrace();
  const stack_t stack{.ss_sp = alternate_stack, .ss_flags = 0, .ss_size = sizeof alternate_stack};
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = handle_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER | SA_ONSTACK | SA_SIGINFO;
  for (const int signal : kFatalSignals) ::sigaction(signal, &action, nullptr);
  std::set_terminate(handle_terminate);
}

Failure describe(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    auto described = without_backtrace(error.what());
    if (const auto* own = dynamic_cast<const Error*>(&error)) described.code = own->code();
    // The type of a plain Error adds nothing to its message.
    if (typeid(error) == typeid(Error)) return described;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
    described.message.insert(0, std::string(name ? name.get() : typeid(error).name()) + ": ");
    return described;
  } catch (...) {
    return {"exception of an unknown type"};
  }
}

bool report_failure(const Failure& failure) noexcept {
  const auto& stack = failure.backtrace.empty() ? failure.message : failure.backtrace;
  return open_file != nullptr &&
         open_file->write(failure.message, stack, failure.code, write_nothing);
}

}  // namespace ddprun::worker
