// Identifies the process that created an object. A forked child has copies of its parent's objects,
// but not the threads that serve them; sockets and shared memory belong to the parent. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {

/// Identifies the creating process. Does not use getpid(), which is a system call each time.
class OwnProcess {
 public:
  OwnProcess() noexcept : forks_(forks()) {}

  /// Returns false in a child forked since the creation. Costs only the read of a variable.
  bool is_this() const noexcept { return forks_ == forks(); }

  /// Throws Error{Errc::usage} in such a child: "THING belongs to the parent of this process; ...".
  void require(const std::string& thing, const char* remedy) const {
    if (!is_this()) refuse(thing, remedy);
  }

 private:
  /// Returns the number of forks between the program's first process and this process.
  static std::uint32_t forks() noexcept;
  [[noreturn]] static void refuse(const std::string& thing, const char* remedy);

  std::uint32_t forks_;
};

/// Never destroys `object`. Leak checkers can find it, unless memory is exhausted.
void keep_forever(void* object) noexcept;

/// An object with threads or locks that only its creating process destroys. In a child, the
/// destructor would wait for threads that do not exist, or for locks that were held at the time of
/// the fork. A child keeps its copy.
template <typename T, typename... Arguments>
std::shared_ptr<T> make_for_this_process(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), [process = OwnProcess()](T* object) {
            process.is_this() ? delete object : keep_forever(object);
          }};
}

}  // namespace ddprun
